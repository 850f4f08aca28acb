"""`python -m crucible.owner_main`: the owner as a process of its own."""

from __future__ import annotations

from crucible.assemble import run_owner
from crucible.config import load_config

if __name__ == "__main__":
    run_owner(load_config())
