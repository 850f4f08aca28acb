"""Several images in one sandbox, as a request over HTTP names them."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from crucible.errors import BadSetting
from crucible.server.models.commands import Exec
from crucible.server.models.sandboxes import Settings


def test_further_images_are_part_of_what_a_sandbox_is_made_of() -> None:
    assert Settings(images={"app": "shop:7"}).as_spec().images == {"app": "shop:7"}
    assert Settings().as_spec().images == {}


def test_a_name_that_cannot_be_is_refused() -> None:
    with pytest.raises(BadSetting):
        Settings(images={"../x": "shop:7"}).as_spec()
    with pytest.raises(ValidationError):
        Settings(images={f"n{number}": "base" for number in range(16)})


def test_a_command_says_in_which_image_it_runs() -> None:
    assert Exec(argv=["id"], image="app").as_request(wants_input=False)["image"] == "app"
    assert Exec(argv=["id"]).as_request(wants_input=False)["image"] == ""
