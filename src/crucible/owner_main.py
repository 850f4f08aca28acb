"""`python -m crucible.owner_main`: the owner as a process of its own.

Its standard output is for whoever started it: one line of JSON if it cannot begin, and then why.
"""

from __future__ import annotations

import json
import os

from crucible.assemble import run_owner
from crucible.config import load_config
from crucible.errors import CrucibleError


def main() -> None:
    starter = os.dup(1)
    os.dup2(2, 1)
    try:
        run_owner(load_config())
    except CrucibleError as error:
        os.write(starter, json.dumps(error.as_fields()).encode())
        raise


if __name__ == "__main__":
    main()
