"""Images over HTTP: what was saved to start from one goes with it."""

from __future__ import annotations

from pathlib import Path

from tests.backends.saved_machines import make_saved
from tests.images.oci.test_push_files import lay_out
from tests.images.registry import descriptor, make_image
from tests.server.conftest import Server

from crucible.images.obtaining import obtain
from crucible.images.oci.pull import Pulling
from crucible.images.oci.reference import parse_reference
from crucible.images.oci.settings import RegistrySettings

IMAGES = "/api/v1/images"


def plant(home: Path, directory: Path, name: str) -> Path:
    """An image, and a template of it."""
    made = make_image({name: name.encode()})
    source = lay_out(directory / name, [made], [descriptor(made.manifest, made.media_type)])
    how = Pulling(home=home, settings=RegistrySettings())
    image = obtain(source, how, name=parse_reference(f"localhost/{name}:1"))
    return make_saved(home / "templates" / name, image_digest=image.digest).directory


async def test_pruning_and_removing_take_templates_along(bare: Server, tmp_path: Path) -> None:
    kept, other = (plant(bare.home, tmp_path, name) for name in ("kept", "other"))
    gone = make_saved(bare.home / "templates" / "gone", image_digest="gone").directory
    async with bare.client() as client:
        answer = await client.post(f"{IMAGES}/prune")
        assert answer.status_code == 200, answer.text
        assert answer.json()["size_bytes"] > 0
        assert (gone.exists(), kept.exists(), other.exists()) == (False, True, True)
        removed = await client.delete(f"{IMAGES}/localhost/other:1")
        assert removed.status_code == 204, removed.text
        assert (kept.exists(), other.exists()) == (True, False)
