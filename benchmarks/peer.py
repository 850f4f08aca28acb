"""A server to reach from a sandbox: `python peer.py ADDRESS` prints its port and serves until it is ended.

The first byte of a connection says what it is for: ANSWER gets a byte back, SEND is followed by eight bytes of a count
and gets so many, TAKE is followed by any number and gets a byte at their end. None of them begins TLS or HTTP.
"""

from __future__ import annotations

import socket
import sys
import threading

ANSWER, SEND, TAKE = b"\1", b"\2", b"\3"
_PIECE = 1 << 18


def main() -> None:
    listener = socket.create_server((sys.argv[1], 0))
    print(listener.getsockname()[1], flush=True)
    while True:
        connection, _ = listener.accept()
        threading.Thread(target=_serve, args=(connection,), daemon=True).start()


def _serve(connection: socket.socket) -> None:
    with connection:
        verb = connection.recv(1)
        if verb == SEND:
            left = int.from_bytes(connection.recv(8, socket.MSG_WAITALL), "big")
            while left:
                left -= connection.send(bytes(min(left, _PIECE)))
            return
        if verb == TAKE:
            buffer = bytearray(_PIECE)
            while connection.recv_into(buffer):
                pass
        connection.sendall(b".")


if __name__ == "__main__":
    main()
