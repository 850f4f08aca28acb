"""`detect` and `config`: what a project's directory comes to, and why."""

from __future__ import annotations

from crucible.cli import specs
from crucible.cli.grammar import JSON, Arguments, Command, Operand

TYPE_CHECKING = False
if TYPE_CHECKING:
    from crucible.project.detection import Finding
    from crucible.project.settings import Setting


def detect(arguments: Arguments) -> int:
    from crucible.cli import render

    directory = specs.host_directory(arguments) or "."
    findings = _findings(arguments, arguments.words("CMD"), directory)
    chosen = next(finding for finding in findings if finding.image)
    if arguments.flag("json"):
        steps = [finding._asdict() for finding in findings]
        render.show_json({"image": chosen.image, "step": chosen.step, "steps": steps})
        return 0
    for finding in findings:
        mark = "->" if finding is chosen else "  "
        render.tell(f"{mark} {finding.step:12} {finding.image or '-':34} {finding.why}")
    render.say(chosen.image)
    return 0


def show(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.project.settings import gather

    directory = specs.host_directory(arguments) or "."
    settings = gather(
        specs.options(arguments), directory=directory, named_file=arguments.value("config")
    )
    labelled = _of_labels(settings, accepts=arguments.flag("accept-labels"))
    rows = {**_defaults(), **settings, **labelled, **_of_registries()}
    if arguments.flag("json"):
        render.show_json({name: row._asdict() for name, row in sorted(rows.items())})
        return 0
    table = [(name, _text(row.value), row.origin) for name, row in sorted(rows.items())]
    render.show_table(("SETTING", "VALUE", "FROM"), table)
    return 0


def schema(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.project.schema import json_schema

    render.show_json(json_schema())
    return 0


def _findings(arguments: Arguments, command: list[str], directory: str) -> list[Finding]:
    """What is named goes before what is guessed."""
    from crucible.project.detection import Finding, reasoning
    from crucible.project.settings import gather

    settings = gather(
        specs.options(arguments), directory=directory, named_file=arguments.value("config")
    )
    named = settings.get("image")
    if named is None:
        first = Finding("named", "", "no option, variable or file names an image")
    else:
        first = Finding("named", named.value, named.origin)
    return [first, *reasoning(command, directory)]


def _of_labels(settings: dict[str, Setting], *, accepts: bool) -> dict[str, Setting]:
    """What the labels of the image set, if one is named and here. What they ask for and do not get is told."""
    from crucible.cli import render
    from crucible.config import load_config
    from crucible.errors import CrucibleError
    from crucible.images.catalog import load_image
    from crucible.project.settings import Setting
    from crucible.sandbox.labels import judge, told
    from crucible.sandbox.spec import SandboxSpec

    named = settings.get("image")
    try:
        image = None if named is None else load_image(load_config().home, named.value)
    except CrucibleError:
        image = None
    if image is None or not image.labels:
        return {}
    known = SandboxSpec.__slots__
    fields = {name: setting.value for name, setting in settings.items() if name in known}
    settled = specs.settled_by(settings)
    judged = judge(SandboxSpec(**fields), image.labels, settled=settled, accepts=accepts)
    for line in told(image.name, judged._replace(taken=())):
        render.tell(render.visible(line))
    return {
        wish.target: Setting(
            getattr(judged.spec, wish.target), f"label {wish.label} of {image.name}"
        )
        for wish in judged.taken
    }


def _defaults() -> dict[str, Setting]:
    from dataclasses import asdict

    from crucible.project.settings import Setting
    from crucible.sandbox.spec import SandboxSpec

    values = asdict(SandboxSpec())
    values["image"] = "guessed"
    return {name: Setting(value, "default") for name, value in values.items()}


def _of_registries() -> dict[str, Setting]:
    """What is for the user alone to set, where he did."""
    import os

    from crucible.images.oci.settings import load_settings
    from crucible.project.settings import Setting
    from crucible.user_file import KEYS, gather

    load_settings()  # refuses what means nothing
    given = gather(os.environ)
    found = {}
    for section, keys in KEYS.items():
        for name, key in keys.items():
            if (value := given.get(key.variable)) is not None:
                origin = f"${value.origin}" if value.origin == key.variable else value.origin
                found[f"{section}.{name}"] = Setting(value.text, origin)
    return found


def _text(value: object) -> str:
    match value:
        case bool():
            return "yes" if value else "no"
        case dict():
            return " ".join(f"{key}={item}" for key, item in value.items()) or "-"
        case list() | tuple():
            return " ".join(map(str, value)) or "-"
    return str(value) or "-"


_FILE_OPTIONS = tuple(
    option for option in specs.OPTIONS if option.long in ("dir", "config", "no-devcontainer")
)
_IMAGE_OPTIONS = tuple(option for option in specs.OPTIONS if option.long == "image")

COMMANDS = (
    Command(
        "detect",
        detect,
        operands=(Operand("CMD", "the command that would be run", arity="any"),),
        options=(*_IMAGE_OPTIONS, *_FILE_OPTIONS, JSON),
        notes="""\
What is named wins: --image, CRUCIBLE_IMAGE, crucible.toml, then devcontainer.json.
Otherwise the image is guessed from the command, then from the files of the directory,
then from its Procfile. The reasoning goes to standard error, the image to standard
output.""",
        examples=(
            ("crucible detect -- npm test", "which image `crucible run npm test` would take"),
            ("crucible detect --dir ../api", "what the files of another directory say"),
        ),
    ),
    Command(
        "config",
        examples=(("crucible config show --json", "each value and where it came from"),),
        subcommands=(
            Command(
                "show",
                show,
                options=(*specs.OPTIONS, JSON),
                summary="Tell each setting of a sandbox and where it comes from",
                examples=(("crucible config show --profile restrictive", "what a profile sets"),),
            ),
            Command(
                "schema",
                schema,
                summary="Print the JSON Schema of crucible.toml, for editors",
                examples=(
                    ("crucible config schema > crucible.schema.json", "a file for an editor"),
                ),
            ),
        ),
    ),
)
