"""The tool `publish`: hands one file of the sandbox to the user.

One file for each call, so that what a permission was given for is exactly what leaves.
"""

from __future__ import annotations

from typing import ClassVar

from crucible.agent.tools import media
from crucible.agent.tools.base import Artifact, Context, Outcome, Reach
from crucible.agent.tools.parameters import Parameter
from crucible.agent.tools.paths import facts_of, missing, resolve
from crucible.agent.tools.wording import quoted, size_words
from crucible.agent.tools.work import Asked, WorkTool, failed

LARGEST = 32 << 20


class Publish(WorkTool):
    name: ClassVar = "publish"
    description: ClassVar = (
        "Hands a file of the sandbox to the user, who cannot see it otherwise: a report, a picture, an archive. "
        f"One file for each call, at most {LARGEST >> 20} MB; pack a directory with `tar czf` first."
    )
    parameters: ClassVar = (
        Parameter(
            name="path",
            kind="text",
            description="The file, absolute or relative to /workspace",
            is_required=True,
        ),
    )
    reach: ClassVar[Reach] = "outside"

    def subject(self, asked: Asked) -> str:
        return resolve(asked["path"])

    async def work(self, asked: Asked, context: Context) -> Outcome:
        path, workplace = resolve(asked["path"]), context.workplace
        facts = await facts_of(workplace, path)
        if facts is None:
            return failed(await missing(workplace, path))
        if facts.kind == "d":
            return failed(
                f"{quoted(path)} is a directory. Pack it first, "
                "such as with `tar czf result.tar.gz DIRECTORY`, and publish that."
            )
        if facts.kind != "f":
            return failed(f"{quoted(path)} is no regular file, so it cannot be published.")
        if facts.size > LARGEST:
            return failed(
                f"{quoted(path)} has {size_words(facts.size)}; at most {size_words(LARGEST)} can be published."
            )
        data = await workplace.read(path, length=LARGEST + 1)
        if len(data) > LARGEST:
            return failed(f"{quoted(path)} grew beyond {size_words(LARGEST)} while it was read.")
        name = quoted(path.rsplit("/", 1)[-1])
        kind = media.media_type(path, data[: media.HEAD])
        return Outcome(
            text=f"Handed {quoted(path)} to the user ({kind}, {size_words(len(data))}).",
            artifacts=(Artifact(name=name, media_type=kind, data=data),),
        )
