"""Real servers for sandboxes to reach, run inside an internet of the tests' own: `python servers.py CERTIFICATE KEY`.

80 and 443 answer HTTP with what they were asked, header fields as digests; 7000 sends back what it gets;
25 speaks first.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import socket
import ssl
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        if self.path.startswith("/to/"):
            self.send_response(302)
            self.send_header("Location", f"http://{self.path[4:]}/")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        digests = {
            name: hashlib.sha256(value.encode()).hexdigest() for name, value in self.headers.items()
        }
        facts = {"path": self.path, "host": self.headers.get("Host"), "headers": digests}
        body = (
            (b"x" * int(self.path[6:]))
            if self.path.startswith("/size/")
            else json.dumps(facts).encode()
        )
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        count = len(self.rfile.read(int(self.headers["Content-Length"])))
        body = str(count).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        return


class Server(ThreadingHTTPServer):
    address_family = socket.AF_INET6
    daemon_threads = True
    request_queue_size = 512

    def handle_error(self, *_: object) -> None:
        return


def echo(port: int, greeting: bytes) -> None:
    listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    while True:
        peer, _ = listener.accept()
        threading.Thread(target=_echo, args=(peer, greeting), daemon=True).start()


def _echo(peer: socket.socket, greeting: bytes) -> None:
    with peer, contextlib.suppress(OSError):
        peer.sendall(greeting)
        while data := peer.recv(65536):
            peer.sendall(data)


def main() -> None:
    plain, secure = Server(("::", 80), Handler), Server(("::", 443), Handler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    secure.socket = context.wrap_socket(secure.socket, server_side=True)
    for work in (plain.serve_forever, secure.serve_forever):
        threading.Thread(target=work, daemon=True).start()
    for port, greeting in ((7000, b""), (25, b"220 ready\r\n")):
        threading.Thread(target=echo, args=(port, greeting), daemon=True).start()
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    threading.Event().wait()


if __name__ == "__main__":
    main()
