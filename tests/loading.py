"""When several workers run all tests, each loads the files that it runs. pytest-xdist has each of them load all.

To its scheduler a file is then one item, which is the tests of it once it runs; they are reported one by one, as ever.
For `conftest.py`: `from tests.loading import pytest_pycollect_makemodule, pytest_runtest_protocol`.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

HALVES = ("vm", "not vm")


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.File | None:
    if not _is_one_of_several(parent.config):
        return None
    return _Unloaded.from_parent(parent, path=module_path)


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    if not isinstance(item, _WholeFile):
        return None
    item.run_tests(nextitem)
    return True


class _Unloaded(pytest.File):
    def collect(self) -> Iterator[pytest.Item]:
        whole = _WholeFile.from_parent(self, name="all")
        # Each test has its own time.
        whole.add_marker(pytest.mark.timeout(0))
        if self.config.option.markexpr == "vm":
            whole.add_marker(pytest.mark.vm)
        yield whole


class _WholeFile(pytest.Item):
    def run_tests(self, nextitem: pytest.Item | None) -> None:
        session, config = self.session, self.config
        assert self.parent is not None
        assert self.parent.parent is not None
        module = pytest.Module.from_parent(self.parent.parent, path=self.path)
        with _nothing_of_it_is_garbage():
            tests = list(session.genitems(module))
        config.hook.pytest_collection_modifyitems(session=session, config=config, items=tests)
        if not tests:
            session._setupstate.teardown_exact(nextitem)
            return
        place = session.items.index(self)
        try:
            for test, following in zip(tests, [*tests[1:], nextitem], strict=True):
                # A worker tells only of what is in its list.
                session.items[place] = test
                config.hook.pytest_runtest_protocol(item=test, nextitem=following)
                if session.shouldfail or session.shouldstop:
                    break
        finally:
            session.items[place] = self

    def runtest(self) -> None:
        raise NotImplementedError("its tests are run one by one")


@contextmanager
def _nothing_of_it_is_garbage() -> Iterator[None]:
    """Modules stay: to look through them for what does not, again and again, took a tenth of the time."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def _is_one_of_several(config: pytest.Config) -> bool:
    """Only for a whole half: who names tests or words wants to know at once whether there are any."""
    option = config.option
    return (
        hasattr(config, "workerinput")
        and option.markexpr in HALVES
        and not option.keyword
        and not any("::" in word for word in config.args)
    )
