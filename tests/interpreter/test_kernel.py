"""The program that keeps a context's state, run on this machine's Python: what it tells of each piece of code."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from crucible.sandbox import interpreter

PROGRAM = Path(interpreter.__file__).parent / "inside" / "kernel.py"


class Kernel:
    def __init__(self, directory: Path) -> None:
        facts = json.dumps({"token": "secret"})
        argv = [sys.executable, str(PROGRAM), str(directory)]
        subprocess.run(argv, input=facts, text=True, check=True, cwd=directory, timeout=60)
        said = json.loads((directory / "address").read_text())
        self.pid: int = said["pid"]
        self.port: int = said["port"]

    def ask(self, **request: Any) -> socket.socket:
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=120)
        body = json.dumps({"token": "secret", **request}).encode()
        connection.sendall(struct.pack(">I", len(body)) + body)
        return connection

    def run(self, code: str, **env: str) -> list[dict[str, Any]]:
        with self.ask(do="run", code=code, env=env) as connection:
            data = bytearray()
            while piece := connection.recv(65_536):
                data += piece
        told = []
        while data:
            (length,) = struct.unpack(">I", data[:4])
            told.append(json.loads(data[4 : 4 + length]))
            del data[: 4 + length]
        assert told[-1]["type"] == "end"
        return told[:-1]

    def result(self, code: str) -> dict[str, Any]:
        (told,) = self.run(code)
        assert told["type"] == "result", told
        forms: dict[str, Any] = told["forms"]
        return forms

    def printed(self, code: str, stream: str = "stdout", **env: str) -> str:
        return "".join(told["text"] for told in self.run(code, **env) if told["type"] == stream)


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    started = Kernel(tmp_path)
    yield started
    os.kill(started.pid, signal.SIGKILL)


def test_what_was_defined_stays(kernel: Kernel) -> None:
    assert kernel.run("x = 20\ndef double(n): return 2 * n") == []
    assert kernel.result("double(x) + 2") == {"text": "42"}
    assert kernel.result("_") == {"text": "42"}


def test_only_the_last_expression_is_a_result(kernel: Kernel) -> None:
    assert kernel.run("1\n2\nNone") == []
    assert kernel.run("3;") == []
    assert kernel.result("1\n2") == {"text": "2"}


def test_all_output_of_code_and_of_its_children_comes_before_the_result(kernel: Kernel) -> None:
    told = kernel.run(
        "import subprocess, sys\nprint('one')\nsubprocess.run(['echo', 'two'])\n"
        "print('oops', file=sys.stderr)\nsys.stdout.buffer.write(b'\\xff')\n7"
    )
    output = "".join(each["text"] for each in told if each["type"] == "stdout")
    assert output in ("one\ntwo\n\ufffd", "one\n\ufffdtwo\n")
    assert "".join(each["text"] for each in told if each["type"] == "stderr") == "oops\n"
    assert told[-1] == {"type": "result", "is_main": True, "forms": {"text": "7"}}


def test_what_is_printed_together_is_not_told_word_by_word(kernel: Kernel) -> None:
    told = kernel.run("for n in range(1000): print(n)")
    assert "".join(each["text"] for each in told) == "".join(f"{n}\n" for n in range(1000))
    assert len(told) < 1000


def test_output_is_told_while_the_code_runs(kernel: Kernel) -> None:
    code = "print('now')\nimport threading\nthreading.Event().wait()"
    with kernel.ask(do="run", code=code) as connection:
        assert b"now" in connection.recv(65_536)


@pytest.mark.parametrize(
    "code, name, value",
    [
        ("1 / 0", "ZeroDivisionError", "division by zero"),
        ("def f(", "SyntaxError", "'(' was never closed (<cell 1>, line 1)"),
        ("raise SystemExit(3)", "SystemExit", "3"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt", ""),
    ],
)
def test_an_exception_is_told_and_ends_nothing(
    kernel: Kernel, code: str, name: str, value: str
) -> None:
    (told,) = kernel.run(code)
    assert (told["type"], told["name"], told["value"]) == ("error", name, value)
    assert "kernel.py" not in told["traceback"]
    assert kernel.result("1") == {"text": "1"}


def test_a_traceback_shows_the_lines_of_earlier_code(kernel: Kernel) -> None:
    kernel.run("def broken():\n    raise ValueError('deep')")
    (told,) = kernel.run("broken()")
    assert "raise ValueError('deep')" in told["traceback"]


def test_values_are_told_in_every_form_they_have(kernel: Kernel) -> None:
    kernel.run(
        "class Rich:\n"
        "    def __repr__(self): return 'rich'\n"
        "    def _repr_html_(self): return '<b>'\n"
        "    def _repr_png_(self): return b'\\x89PNG'\n"
        "    def _repr_json_(self): return {'a': [1]}, {'expanded': True}\n"
        "    def _repr_latex_(self): raise ValueError\n"
        "    def _repr_mimebundle_(self): return {'text/markdown': '*', 'x/y': 1}\n"
    )
    forms = {
        "text": "rich", "html": "<b>", "png": "iVBORw==", "json": {"a": [1]}, "markdown": "*", "x/y": 1,
    }  # fmt: skip
    assert kernel.result("Rich()") == forms
    (told,) = kernel.run("display(Rich())\nNone")
    assert told == {"type": "result", "is_main": False, "forms": forms}
    assert set(kernel.result("Rich")) == {"text"}


def test_a_value_that_cannot_be_shown_is_told_as_such(kernel: Kernel) -> None:
    kernel.run("class Bad:\n    def __repr__(self): raise RuntimeError")
    assert kernel.result("Bad()") == {"text": "<Bad whose repr failed: RuntimeError>"}


def test_a_result_that_is_too_large_is_not_sent(kernel: Kernel) -> None:
    assert "too large" in kernel.printed("'x' * (9 << 20)", "stderr")


def test_figures_are_told_as_pictures_and_as_numbers(kernel: Kernel) -> None:
    told = kernel.run(
        "import matplotlib.pyplot as plt\n"
        "plt.plot([1, 2], [3, 4], label='up'); plt.title('T'); plt.xlabel('time (s)')\n"
        "plt.show()\nprint('after')\n"
        "plt.bar(['a', 'b'], [5, 6]);"
    )
    kinds = [each["type"] for each in told]
    assert (kinds[0], kinds[1], kinds[-1]) == ("result", "stdout", "result")
    line, bar = told[0]["forms"], told[-1]["forms"]
    assert line["png"].startswith("iVBORw0KGgo")
    assert line["chart"]["type"] == "line"
    assert line["chart"]["title"] == "T"
    assert line["chart"]["x_unit"] == "s"
    assert line["chart"]["elements"] == [{"label": "up", "points": [[1, 3], [2, 4]]}]
    values = {each["label"]: each["value"] for each in bar["chart"]["elements"]}
    assert values == {"a": 5, "b": 6}


@pytest.mark.parametrize(
    "code, kind, count",
    [
        ("plt.scatter([1, 2], [3, 4])", "scatter", 1),
        ("plt.pie([1, 2], labels=['p', 'q'])", "pie", 2),
        ("plt.boxplot([[1, 2, 3, 40], [2, 3, 4]])", "box_and_whisker", 2),
        ("a, b = plt.subplots(1, 2)[1]; a.plot([1]); b.bar([1], [2])", "superchart", 2),
    ],
)
def test_every_kind_of_chart_is_known(kernel: Kernel, code: str, kind: str, count: int) -> None:
    (told,) = kernel.run(f"import matplotlib.pyplot as plt\n{code};")
    chart = told["forms"]["chart"]
    assert (chart["type"], len(chart["elements"])) == (kind, count)


def test_code_may_await(kernel: Kernel) -> None:
    assert kernel.result("import asyncio\nawait asyncio.sleep(0, 'slept')") == {"text": "'slept'"}


def test_lines_of_notebooks_work(kernel: Kernel) -> None:
    assert kernel.printed("!echo from the shell") == "from the shell\n"
    assert kernel.printed("%cd /\n!pwd") == "/\n"
    assert kernel.result("'''\n!not a line\n'''") == {"text": "'\\n!not a line\\n'"}


def test_variables_of_the_environment_hold_for_one_piece_of_code(kernel: Kernel) -> None:
    code = "import os\nprint(os.environ.get('ONLY_HERE'))"
    assert kernel.printed(code, ONLY_HERE="yes") == "yes\n"
    assert kernel.printed(code) == "None\n"


def test_who_hangs_up_interrupts_the_code(kernel: Kernel) -> None:
    with kernel.ask(do="run", code="print('in')\nwhile True: pass") as connection:
        assert b"in" in connection.recv(65_536)
    assert kernel.result("1") == {"text": "1"}


def test_code_can_be_interrupted(kernel: Kernel) -> None:
    code = "print('in')\nimport time\nwhile True: time.sleep(1)"
    with kernel.ask(do="run", code=code) as connection:
        assert b"in" in connection.recv(65_536)
        kernel.ask(do="interrupt").close()
        told = b""
        while piece := connection.recv(65_536):
            told += piece
    assert b"KeyboardInterrupt" in told


def test_it_greets_also_while_code_runs(kernel: Kernel) -> None:
    with kernel.ask(do="run", code="print('in')\nwhile True: pass") as running:
        assert b"in" in running.recv(65_536)
        with kernel.ask(do="greet") as connection:
            assert b"execution_count" in connection.recv(65_536)


def test_who_does_not_know_the_token_is_not_heard(kernel: Kernel) -> None:
    with kernel.ask(token="wrong", do="run", code="print(1)") as connection:
        assert connection.recv(1) == b""


@pytest.mark.parametrize("data", [b"\xff\xff\xff\xff", b"\0\0\0\2{}", b"\0\0\0\1[", b"GET / HTTP"])
def test_nonsense_is_not_heard(kernel: Kernel, data: bytes) -> None:
    with socket.create_connection(("127.0.0.1", kernel.port), timeout=60) as connection:
        connection.sendall(data)
        with suppress(OSError):  # it may have hung up on us before
            connection.shutdown(socket.SHUT_WR)
            assert connection.recv(1) == b""
    assert kernel.result("1") == {"text": "1"}
