"""What is told of requests to who runs the server: a line of JSON, figures, and a span where somebody collects them."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from contextlib import AbstractContextManager, nullcontext
from typing import TextIO

from starlette.types import Scope

from crucible.server.tracing import Tracing

BOUNDS_S = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Journal:
    def __init__(
        self, output: TextIO | None = sys.stderr, *, tracing: Tracing | None = None
    ) -> None:
        self._output = output
        self._tracing = tracing
        self.requests: Counter[tuple[str, str, int]] = Counter()
        self.durations: Counter[float] = Counter()
        self.duration_sum = 0.0

    def span(self, scope: Scope, request_id: str) -> AbstractContextManager[object]:
        return nullcontext() if self._tracing is None else self._tracing.span(scope, request_id)

    def close(self) -> None:
        if self._tracing is not None:
            self._tracing.close()

    def note(self, scope: Scope, status: int, seconds: float) -> None:
        method = scope.get("method", "WEBSOCKET")
        route = getattr(scope.get("route"), "path", "none")
        self.requests[method, route, status] += 1
        self.durations[next((bound for bound in BOUNDS_S if seconds <= bound), float("inf"))] += 1
        self.duration_sum += seconds
        if self._output is not None:
            self._tell(scope, method, status, seconds)

    def _tell(self, scope: Scope, method: str, status: int, seconds: float) -> None:
        caller = scope["state"].get("caller")
        client = scope.get("client")
        line = {
            "at": round(time.time(), 3),
            "request_id": scope["state"]["request_id"],
            "caller": caller.id if caller is not None else None,
            "client": client[0] if client else None,
            "method": method,
            "path": scope["path"],
            "status": status,
            "ms": round(seconds * 1000, 1),
        }
        print(json.dumps(line), file=self._output, flush=True)
