"""`python -m crucible.cli`: the command line without its entry point."""

import sys

from crucible.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
