"""What of the SDK is made from something else is as it would be made now; its errors are the program's."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import python_sdk

from crucible.server.models.sandboxes import NewSandbox, SecretValue
from crucible_client import _states, errors, settings


def test_the_synchronous_half_is_made_of_the_other() -> None:
    for path, text in python_sdk.generated().items():
        if path.name != "_states.py":
            assert path.read_text() == text, f"{path.name} has drifted: run `make docs`"
    made = {path.name for path in (python_sdk.PACKAGE / "_sync").glob("*.py")}
    assert made == {path.name for path in (python_sdk.PACKAGE / "_async").glob("*.py")}


def test_what_is_written_twice_has_the_same_names() -> None:
    def public(half: str, name: str) -> set[str]:
        tree = ast.parse((python_sdk.PACKAGE / half / name).read_text())
        kinds = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
        names = {node.name for node in tree.body if isinstance(node, kinds)}
        return {name for name in names if not name.startswith("_")}

    for name in python_sdk.WRITTEN_TWICE:
        assert public("_async", name) == public("_sync", name)


def test_errors_have_the_names_codes_and_families_of_the_programs() -> None:
    """One that the program has and the SDK has not yet comes as a CrucibleError with its code."""
    own = {python_sdk.client_name(kind): kind for kind in python_sdk.program_errors()}
    for name, kind in vars(_states).items():
        if isinstance(kind, type) and issubclass(kind, _states.CrucibleError):
            assert kind.code == own[name].code, name
            assert kind.__mro__[1].__name__ == own[name].__mro__[1].__name__, name
    for problem in ({"code": kind.code, "message": "m"} for kind in own.values()):
        assert errors.from_problem(problem).code == problem["code"]


def test_what_can_be_asked_of_a_sandbox_is_what_the_server_takes() -> None:
    taken = NewSandbox.model_fields["settings"].annotation
    assert taken is not None
    names = set(settings.Settings.__annotations__) | {"image", "ttl_s"}
    assert names <= set(taken.model_fields)
    secret = set(settings.SecretValue.__annotations__)
    assert secret == set(SecretValue.model_fields)


def test_the_package_imports_nothing_of_the_program() -> None:
    for path in python_sdk.PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom):
                assert (node.module or "").partition(".")[0] != "crucible", path
            elif isinstance(node, ast.Import):
                assert all(one.name.partition(".")[0] != "crucible" for one in node.names), path


def test_import_crucible_loads_nothing_else() -> None:
    code = (
        "import sys; before = set(sys.modules); import crucible; "
        "print(sorted(set(sys.modules) - before - {'__future__'})); crucible.Sandbox; "
        "print('httpx' in sys.modules, hasattr(crucible, 'nothing'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["['crucible']", "True False"]


def test_the_command_line_loads_nothing_of_the_sdk() -> None:
    code = (
        "import sys; from crucible.cli.main import main\n"
        "try: main(['--help'])\nexcept SystemExit: pass\n"
        "sys.exit(any(one.startswith(('httpx', 'crucible_client')) for one in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=True)


def test_the_package_says_that_it_is_typed() -> None:
    assert (python_sdk.PACKAGE / "py.typed").exists()
    assert not list(Path(python_sdk.PACKAGE).rglob("*.pyi"))
