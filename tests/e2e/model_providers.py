"""Model providers to reach in an internet of the tests' own: `python model_providers.py CERTIFICATE KEY`.

Each answers as its API does, in one piece or streamed, to whoever sends the key of KEY_DIGEST. A streamed answer stops
after its first word until its client has asked for the list of models: only who gets words as they come can do that.
"""

from __future__ import annotations

import hashlib
import json
import os
import ssl
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

WORDS = ("fet", "ched")
PATIENCE_S = 240.0

Document = dict[str, Any]


def anthropic_answer(text: str) -> Document:
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "m", "stop_reason": "end_turn",
        "stop_sequence": None, "content": [{"type": "text", "text": text}] if text else [],
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }  # fmt: skip


def anthropic_events() -> Iterator[Document]:
    yield {"type": "message_start", "message": {**anthropic_answer(""), "stop_reason": None}}
    yield {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}
    for word in WORDS:
        delta = {"type": "text_delta", "text": word}
        yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    ended = {"stop_reason": "end_turn", "stop_sequence": None}
    yield {"type": "message_delta", "delta": ended, "usage": {"output_tokens": 2}}
    yield {"type": "message_stop"}


def chat_answer(text: str) -> Document:
    choice = {
        "index": 0,
        "finish_reason": "stop",
        "message": {"role": "assistant", "content": text},
    }
    return {
        "id": "c",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [choice],
    }


def chat_events() -> Iterator[Document]:
    for word in WORDS:
        choice = {"index": 0, "delta": {"role": "assistant", "content": word}}
        yield {
            "id": "c",
            "object": "chat.completion.chunk",
            "created": 1,
            "model": "m",
            "choices": [choice],
        }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    is_heard = threading.Event()

    def do_GET(self) -> None:
        if self._is_known() and self.path.split("?")[0].endswith("/models"):
            self.is_heard.set()
            self._answer(200, {"object": "list", "data": [], "has_more": False})

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if not self._is_known():
            return
        is_anthropic = self.path == "/v1/messages"
        if not is_anthropic and not self.path.endswith("/v1/chat/completions"):
            self._answer(404, {"error": {"message": self.path}})
        elif not asked.get("stream"):
            text = "".join(WORDS)
            self._answer(200, anthropic_answer(text) if is_anthropic else chat_answer(text))
        else:
            self._stream(anthropic_events() if is_anthropic else chat_events())

    def _is_known(self) -> bool:
        # Anthropic takes keys in either field.
        sent = self.headers.get("Authorization") or self.headers.get("X-Api-Key") or ""
        key = sent.removeprefix("Bearer ")
        if hashlib.sha256(key.encode()).hexdigest() == os.environ["KEY_DIGEST"]:
            return True
        self._answer(401, {"error": {"message": "not the key"}})
        return False

    def _answer(self, status: int, document: Document) -> None:
        body = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _stream(self, events: Iterator[Document]) -> None:
        self.is_heard.clear()
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in events:
            name = f"event: {event['type']}\n" if "type" in event else ""
            self._chunk(f"{name}data: {json.dumps(event)}\n\n".encode())
            if WORDS[0] in json.dumps(event):
                self.is_heard.wait(PATIENCE_S)
        self._chunk(b"data: [DONE]\n\n" if not name else b"")
        if not name:
            self._chunk(b"")

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    def log_message(self, format: str, *arguments: object) -> None:
        return


def main() -> None:
    server = ThreadingHTTPServer(("", 443), Handler)
    server.daemon_threads = True
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[1], sys.argv[2])
    server.socket = context.wrap_socket(server.socket, server_side=True)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    server.serve_forever()


if __name__ == "__main__":
    main()
