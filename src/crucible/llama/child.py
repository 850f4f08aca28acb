"""The child that runs one model file: `python -m crucible.llama.child`.

It reads what to serve as one line of JSON, so that the key is neither in its arguments nor in its environment, tells
in one line that it listens or why it cannot, and serves until its input ends or whoever started it dies.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any, NoReturn

from crucible.llama.order import LONGEST_ORDER, Order

_PR_SET_PDEATHSIG = 1
# Only what went wrong is written down: the rest would have what people ask.
_ERRORS_ALONE = 1


def main() -> None:
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # What the library prints must not be taken for our own line.
    told = os.dup(1)
    os.dup2(2, 1)
    order = Order.from_line(sys.stdin.buffer.readline(LONGEST_ORDER))
    if os.getppid() != order.parent:
        _leave(order)
    try:
        server = _serve(order)
    except Exception as error:
        os.write(told, _line({"error": f"{type(error).__name__}: {error}"[:1000]}))
        _leave(order)
    signal.signal(signal.SIGTERM, lambda *_: _leave(order))
    os.write(told, _line({"address": server.listening_address}))
    while os.read(0, 4096):
        pass
    _leave(order)


def _serve(order: Order) -> Any:
    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path = order.model
    params.hostnames = [order.socket]
    params.api_keys = [order.key]
    params.model_alias = {order.name}
    params.n_parallel = 1
    params.n_ctx = order.context_tokens
    params.cpuparams.n_threads = order.threads
    params.cpuparams_batch.n_threads = order.threads
    params.verbosity = _ERRORS_ALONE
    params.offline = True
    params.ui = False
    params.endpoint_slots = False
    if order.mode == "embedding":
        params.embedding = True
        params.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
        # A text must fit into one batch: its vector is made of all its tokens at once.
        params.n_batch = params.n_ubatch = order.context_tokens
    return xllamacpp.Server(params)


def _leave(order: Order) -> NoReturn:
    """At once: the library's own way out waits for requests that nobody will read."""
    shutil.rmtree(Path(order.socket).parent, ignore_errors=True)
    os._exit(0)


def _line(value: dict[str, str]) -> bytes:
    return json.dumps(value).encode() + b"\n"


if __name__ == "__main__":
    main()
