"""A program that joins a command of a scripted service, as the command line does. Not a test."""

from __future__ import annotations

import json
import socket
import sys

from crucible.cli import main as cli
from crucible.cli.joining import join
from crucible.client.command import Conduct


def main() -> int:
    path, settings = sys.argv[1], json.loads(sys.argv[2])
    request = {"verb": settings.pop("verb", "exec")}
    conduct = Conduct(**settings)

    def connect() -> socket.socket:
        connection = socket.socket(socket.AF_UNIX)
        connection.connect(path)
        return connection

    return join(connect, request, conduct=conduct, doing="waiting")


if __name__ == "__main__":
    sys.exit(cli.guarded(main))
