"""What the labels of an image say of its sandbox counts over HTTP as it does on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.images.oci.test_push_files import lay_out
from tests.images.registry import descriptor, make_image
from tests.server.scripted import Staged

from crucible.images.obtaining import obtain
from crucible.images.oci.pull import Pulling
from crucible.images.oci.reference import parse_reference
from crucible.images.oci.settings import RegistrySettings

NAME = "localhost/labelled:1"
LABELS = {
    "dev.crucible.memory": "256M",
    "dev.crucible.cpus": "4",
    "dev.crucible.profile": "restrictive",
    "dev.crucible.mount": "/:/host",
}


def plant(home: Path, directory: Path) -> None:
    made = make_image({"file": b"x"}, config={"Labels": LABELS})
    source = lay_out(directory / "labelled", [made], [descriptor(made.manifest, made.media_type)])
    how = Pulling(home=home, settings=RegistrySettings())
    obtain(source, how, name=parse_reference(NAME))


async def created(staged: Staged, **settings: Any) -> dict[str, Any]:
    async with staged.client() as client:
        answer = await client.post(
            "/api/v1/sandboxes", json={"settings": {"image": NAME, **settings}}
        )
        assert answer.status_code == 201, answer.text
        told: dict[str, Any] = answer.json()
    return told


async def test_labels_take_from_a_sandbox_and_give_only_to_who_accepts_them(
    staged: Staged, tmp_path: Path
) -> None:
    plant(staged.home, tmp_path)
    plain = await created(staged)
    settings = plain["settings"]
    assert (settings["memory_mib"], settings["cpus"]) == (256, 1)
    assert (settings["network"], settings["read_only"]) == ("off", True)
    assert any("asks for --cpus 4" in line for line in plain["notices"])
    assert any("dev.crucible.mount" in line and "not used" in line for line in plain["notices"])
    accepted = (await created(staged, accept_labels=True))["settings"]
    assert (accepted["cpus"], accepted["mounts"]) == (4, [])


async def test_what_a_caller_says_counts_more_than_a_label(staged: Staged, tmp_path: Path) -> None:
    plant(staged.home, tmp_path)
    settings = (await created(staged, memory_mib=512, profile="moderate", network="off"))[
        "settings"
    ]
    assert (settings["memory_mib"], settings["read_only"]) == (512, False)


async def test_a_run_heeds_them_too(staged: Staged, tmp_path: Path) -> None:
    plant(staged.home, tmp_path)
    async with staged.client() as client:
        body = {"argv": ["true"], "settings": {"image": NAME}}
        answer = await client.post("/api/v1/run", json=body)
        assert answer.status_code == 200, answer.text
    (line,) = staged.domain.manager.records.audit(1)
    assert (line["verb"], line["detail"]["policy"]["read_only"]) == ("run", True)
