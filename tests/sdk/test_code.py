"""What code shows, prints and raises, as a server tells it: hostile forms are no results, and nothing is lost."""

from __future__ import annotations

import base64

import pytest
from tests.conftest import Run
from tests.sdk.conftest import Half
from tests.sdk.scripted import Scripted, answer, box, events

from crucible_client import CodeResult, errors

CHART = {"type": "line", "title": "t", "elements": [{"points": [[1, 2]]}]}


async def test_results_come_in_the_forms_they_have(
    run: Run, half: Half, scripted: Scripted
) -> None:
    client = half.client(scripted.url)
    scripted.says(answer(box()))
    found = await half.Sandbox.connect("box", client=client)
    png = base64.b64encode(b"\x89PNG").decode()
    forms = {"text": "<Figure>", "png": png, "chart": CHART, "json": [1], "html": 7}
    scripted.says(
        events(
            ("stdout", {"text": "a"}),
            ("result", {"is_main": False, "forms": forms}),
            ("stderr", {"text": "b"}),
            ("stdout", {"text": "c"}),
            ("result", {"is_main": True, "forms": {"text": "42"}}),
            ("raised", {"name": "E", "value": "v", "traceback": "t"}),
            ("end", {"count": 3}),
        )
    )
    shown: list[CodeResult] = []
    done = await found.run_code("x", context="own", on_result=shown.append)
    assert (done.text, done.stdout, done.stderr, done.count) == ("42", "ac", "b", 3)
    assert done.error is not None
    assert (done.error.name, shown) == ("E", done.results)
    plot = done.results[0]
    assert (plot.png, plot.chart, plot.json, plot.html) == (b"\x89PNG", CHART, [1], None)
    assert scripted.asked[-1].json["context"] == "own"
    await client.close()


@pytest.mark.parametrize(
    "said, error",
    [
        (events(("stdout", {"text": "a"})), errors.ConnectionLost),
        (events(("stdout", {"text": None}), ("end", {"count": 1})), errors.BadAnswer),
        (events(("result", {"is_main": True, "forms": []})), errors.BadAnswer),
        (events(("raised", {"name": "E"})), errors.BadAnswer),
        (events(("end", {"count": True})), errors.BadAnswer),
        (events(("error", {"code": "deadline-over", "message": "m"})), errors.DeadlineOver),
    ],
    ids=range(6),
)
async def test_what_is_none_is_an_error(
    run: Run, half: Half, scripted: Scripted, said: bytes, error: type[errors.CrucibleError]
) -> None:
    client = half.client(scripted.url)
    scripted.says(answer(box()))
    found = await half.Sandbox.connect("box", client=client)
    scripted.says(said)
    with pytest.raises(errors.CrucibleError) as caught:
        await found.run_code("x")
    assert type(caught.value) is error
    await client.close()


async def test_what_has_no_end_is_kept_in_part(
    run: Run, half: Half, scripted: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("crucible_client.execution.LARGEST_EXECUTION", 1000)
    client = half.client(scripted.url)
    scripted.says(answer(box()))
    found = await half.Sandbox.connect("box", client=client)
    flood = [("stdout", {"text": "x" * 100})] * 50
    large = ("result", {"is_main": True, "forms": {"png": "A" * 2000}})
    scripted.says(events(*flood, large, ("end", {"count": 1})))
    heard: list[str] = []
    done = await found.run_code("x", on_stdout=heard.append)
    assert (done.is_truncated, done.results, len("".join(heard))) == (True, [], 5000)
    assert 100 <= len(done.stdout) <= 1000
    await client.close()


@pytest.mark.parametrize("form", ["!", "a", 7, None, "", "AAA"])
def test_a_picture_that_is_none_is_none(form: object) -> None:
    shown = CodeResult(is_main=True, forms={"png": form, "jpeg": form, "chart": form})
    assert (shown.png, shown.jpeg, shown.chart) == (None, None, None)
