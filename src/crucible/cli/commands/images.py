"""`image`: what is here to make sandboxes of, and its way in and out."""

from __future__ import annotations

from crucible.cli.commands.image_build import BUILD
from crucible.cli.grammar import JSON, Arguments, BadUsage, Command, Operand, Option

TYPE_CHECKING = False
if TYPE_CHECKING:
    from pathlib import Path

    from crucible.cli.layer_bars import LayerBars
    from crucible.images.catalog import Image
    from crucible.images.oci.store import Store


def pull(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.layer_bars import LayerBars
    from crucible.errors import CrucibleError

    names = list(dict.fromkeys(arguments.words("NAME")))
    if arguments.value("name") and len(names) > 1:
        raise BadUsage("--name is for one image, and several were named")
    status = 0
    for name in names:
        bars = LayerBars(f"pulling {name}")
        try:
            image = _pull_one(name, arguments, bars)
            bars.clear()
            render.say(render.visible(_familiar(image.name)))
        except CrucibleError as error:
            bars.clear()
            render.show_error(error)
            status = status or error.exit_status
        finally:
            bars.clear()
    return status


def _pull_one(text: str, arguments: Arguments, bars: LayerBars) -> Image:
    from crucible.images.obtaining import obtain
    from crucible.images.oci.pull import Policy, Pulling
    from crucible.images.oci.reference import parse_reference
    from crucible.sandbox.image_use import images_in_use

    home, name = _home(), arguments.value("name")
    how = Pulling(
        home=home,
        policy=Policy(arguments.value("policy") or Policy.ALWAYS),
        report=bars.note,
        progress=bars.layer,
        in_use=lambda: images_in_use(home),
    )
    return obtain(text, how, name=parse_reference(name) if name else None)


def list_images(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.image_lines import row
    from crucible.sandbox.known_images import known_images

    images = known_images(_home())
    if arguments.flag("quiet"):
        for image in images:
            render.say(render.visible(image.name))
    elif arguments.flag("json"):
        from dataclasses import asdict

        render.show_json([asdict(image) for image in images])
    elif images:
        render.show_table(
            ("NAME", "DIGEST", "SIZE", "ROOT", "USED BY", "PULLED"),
            [row(image) for image in images],
        )
    else:
        render.tell("There are no images; `crucible setup` builds the base image")
    return 0


def inspect(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.sandbox.known_images import describe

    facts = describe(_home(), arguments.word("NAME"), is_deep=arguments.flag("verify"))
    if arguments.flag("json"):
        render.show_json(facts)
        return 0
    if facts.get("pulled_at"):
        facts["pulled_at"] = render.moment(facts["pulled_at"])
    render.show_facts(
        [
            (key.removesuffix("_at").replace("_", " ").capitalize(), _text(value))
            for key, value in facts.items()
            if value
        ]
    )
    return 0


def remove(arguments: Arguments) -> int:
    from crucible.assemble import remove_templates_of_gone_images
    from crucible.cli import render
    from crucible.config import load_config
    from crucible.errors import CrucibleError
    from crucible.sandbox import known_images

    status = 0
    for name in dict.fromkeys(arguments.words("NAME")):
        try:
            known_images.remove(_home(), name)
        except CrucibleError as error:
            render.show_error(error)
            status = status or error.exit_status
    remove_templates_of_gone_images(load_config())
    return status


def prune(arguments: Arguments) -> int:
    from crucible.assemble import remove_templates_of_gone_images
    from crucible.cli import render
    from crucible.config import load_config
    from crucible.images.obtaining import prune as prune_images
    from crucible.sandbox.image_use import images_in_use

    home = _home()
    freed = prune_images(home, lambda: images_in_use(home), everything=arguments.flag("all"))
    of_templates = remove_templates_of_gone_images(load_config())
    for reference in freed.references:
        render.say(render.visible(_familiar(reference)))
    render.tell(f"Freed {render.size(freed.size_bytes + of_templates)}")
    return 0


def export(arguments: Arguments) -> int:
    from pathlib import Path

    from crucible.cli.progress import ProgressLine
    from crucible.images.oci.exporting import ExportFormat
    from crucible.images.oci.exporting import export as write
    from crucible.images.oci.reference import parse_reference
    from crucible.sandbox.known_images import find_stored

    name, target = arguments.word("NAME"), Path(arguments.word("FILE")).absolute()
    _refuse_builtin(name)
    store = _store()
    progress = ProgressLine(f"exporting {name}")
    try:
        with store.opened():
            image = find_stored(store, name)
            form = ExportFormat(arguments.value("format") or ExportFormat.OCI_ARCHIVE)
            progress.tick()
            write(store, image, parse_reference(image.reference), target, form)
    finally:
        progress.clear()
    return 0


def push(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.cli.layer_bars import LayerBars
    from crucible.images.obtaining import evict
    from crucible.images.oci.push import Pushing
    from crucible.images.oci.push import push as send
    from crucible.images.oci.push_files import push_file
    from crucible.images.oci.reference import RegistryReference, parse_reference, parse_source
    from crucible.sandbox.image_use import images_in_use
    from crucible.sandbox.known_images import find_stored

    name, given = arguments.word("NAME"), arguments.optional_word("TARGET")
    _refuse_builtin(name)
    source = parse_source(name)
    if given is None and not isinstance(source, RegistryReference):
        raise BadUsage("TARGET is missing: a file says not where it is to be pushed")
    target = parse_reference(given or name)
    store = _store()
    bars = LayerBars(f"pushing {name}")
    how = Pushing(report=bars.note, progress=bars.layer)
    try:
        if not isinstance(source, RegistryReference):
            digest = push_file(_home(), source, target, how)
            # It went through the store, and nothing here needs it.
            evict(_home(), how.settings.limit_bytes, lambda: images_in_use(_home()))
        else:
            with store.opened():
                digest = send(store, find_stored(store, name), target, how)
    finally:
        bars.clear()
    render.say(f"{target.familiar}@{digest}")
    return 0


def _refuse_builtin(name: str) -> None:
    """One that was made of packages has no layers to send anywhere."""
    from crucible.errors import ImageUnsupported
    from crucible.sandbox.known_images import is_builtin

    if is_builtin(_home(), name):
        raise ImageUnsupported(
            name,
            "it was made of packages here and has no layers",
            hint=f"Build one from it: a Dockerfile with `FROM {name}`, and `crucible image build`",
        )


def _familiar(reference: str) -> str:
    from crucible.images.oci.reference import parse_reference

    return parse_reference(reference).familiar


def _text(value: object) -> str:
    if isinstance(value, dict):
        return " ".join(f"{key}={inner}" for key, inner in value.items())
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value)
    return str(value)


def _home() -> Path:
    from crucible.config import load_config

    return load_config().home


def _store() -> Store:
    from crucible.images.oci.store import Store

    return Store(_home())


_NAME = Operand("NAME", "the image", complete="image")
_NAMES = Operand("NAME", "the images", arity="many", complete="image")

_SUBCOMMANDS = (
    Command(
        "pull",
        pull,
        operands=(
            Operand(
                "NAME",
                "names in registries, or oci:DIR, oci-archive:FILE, docker-archive:FILE",
                arity="many",
            ),
        ),
        options=(
            Option(
                "policy",
                "when to ask the registry; `always` unless given",
                metavar="WHEN",
                choices=("always", "missing", "never"),
            ),
            Option("name", "what to call an image from a file", metavar="NAME"),
        ),
        summary="Fetch images, so that they can be used without a network",
        notes="Logins are those of Docker and podman. What breaks off goes on where it broke off.",
        examples=(
            ("crucible image pull python:3.12-alpine", "from Docker Hub"),
            ("crucible image pull localhost:5000/team/app:1", "from a registry of one's own"),
            ("crucible image pull docker-archive:app.tar", "what `docker save` wrote"),
        ),
    ),
    BUILD,
    Command(
        "list",
        list_images,
        options=(JSON, Option("quiet", "print names only", short="q")),
        summary="List the images on this machine",
        examples=(("crucible image list", "names, sizes, and who uses them"),),
    ),
    Command(
        "inspect",
        inspect,
        operands=(_NAME,),
        options=(JSON, Option("verify", "read every byte and compare it with its digest")),
        summary="Show everything known about an image",
        examples=(("crucible image inspect base", "what it was made of and how it runs"),),
    ),
    Command(
        "remove",
        remove,
        operands=(_NAMES,),
        summary="Remove images that no sandbox uses",
        examples=(("crucible image remove python:3.12-alpine", "free what no other needs"),),
    ),
    Command(
        "prune",
        prune,
        options=(Option("all", "also remove every image that no sandbox uses", short="a"),),
        summary="Remove unfinished downloads and layers that no image needs",
        examples=(("crucible image prune --all", "keep only what sandboxes use"),),
    ),
    Command(
        "export",
        export,
        operands=(_NAME, Operand("FILE", "where to write it", complete="path")),
        options=(
            Option(
                "format",
                "what to write; `oci-archive` unless given",
                metavar="FORMAT",
                choices=("oci", "oci-archive", "docker-archive"),
            ),
        ),
        summary="Write an image to a file or directory",
        examples=(
            ("crucible image export python:3.12 python.tar", "as a tar of an OCI layout"),
            ("crucible image export app:1 app.tar --format docker-archive", "for `docker load`"),
        ),
    ),
    Command(
        "push",
        push,
        operands=(
            _NAME,
            Operand("TARGET", "the name to push it under, if another", arity="optional"),
        ),
        summary="Send an image to a registry",
        notes="""\
NAME may be oci:DIR or oci-archive:FILE as well: what lies there is sent as it is, an index with
the images of all its platforms.""",
        examples=(
            ("crucible image push app:1 localhost:5000/team/app:1", "under a new name"),
            (
                "crucible image push oci:layout localhost:5000/team/app:1",
                "for all platforms that a layout has",
            ),
        ),
    ),
)

COMMANDS = (
    Command(
        "image",
        subcommands=_SUBCOMMANDS,
        examples=(
            ("crucible image pull python:3.12-alpine", "fetch one ahead of time"),
            ("crucible image list", "what is here"),
        ),
    ),
)
