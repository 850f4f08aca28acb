"""`diff` and `apply`: what a sandbox changed in its copy of a directory, seen and taken over."""

from __future__ import annotations

from crucible.cli.grammar import Arguments, Command, Operand, Option

_MOST_MANIFEST_BYTES = 256 << 20

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from crucible.sandbox.workspace.applying import Applied
    from crucible.sandbox.workspace.changes import Changes
    from crucible.sandbox.workspace.manifest import Manifest


def diff(arguments: Arguments) -> int:
    from crucible.cli import render

    trees = _trees(arguments.word("NAME"))
    if arguments.flag("json"):
        render.show_json([row for tree in trees for row in tree.rows()])
        return 0
    for tree in trees:
        if arguments.flag("names"):
            for change in tree.changes.all:
                render.say(f"{change.kind:<9} {render.visible(tree.shown(change.name))}")
        else:
            tree.show()
    return 0


def apply(arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.errors import EXIT_REFUSED

    changed = [tree for tree in _trees(arguments.word("NAME")) if tree.changes]
    if not changed:
        render.tell("The sandbox changed nothing")
        return 0
    status = 0
    for tree in changed:
        tree.show()
        if not arguments.flag("yes") and not _agreed(tree):
            render.tell("Nothing was written")
            status = EXIT_REFUSED
        else:
            status = _write(tree, arguments) or status
    return status


def _write(tree: _Workspace, arguments: Arguments) -> int:
    from crucible.cli import render
    from crucible.errors import EXIT_REFUSED

    applied = tree.apply(
        force=arguments.flag("force"),
        allow_outside_links=arguments.flag("allow-outside-links"),
        allow_git_control=arguments.flag("allow-git-control"),
    )
    for refusal in applied.refused:
        name = render.visible(tree.shown(refusal.change.name))
        render.tell(f"warning: {name} was not written: {render.visible(refusal.why)}")
    render.tell(f"Wrote {len(applied.done)} changes to {tree.host_directory}")
    return EXIT_REFUSED if applied.refused else 0


def _trees(sandbox: str) -> list[_Workspace]:
    """The workspace and every writable mount; where there is none of them, the workspace says so itself."""
    from crucible.config import load_config
    from crucible.sandbox.mounts import parse_mount
    from crucible.sandbox.records import open_records

    record = open_records(load_config().home).find(sandbox)
    targets = [mount.target for mount in map(parse_mount, record.spec.mounts) if mount.is_writable]
    if record.host_directory is not None or not targets:
        targets.insert(0, "")
    return [_Workspace(sandbox, target) for target in targets]


class _Workspace:
    """A directory that a sandbox was given, as it was then and as the sandbox has it now.

    `target` is where a writable mount lies; the workspace has none.
    """

    def __init__(self, sandbox: str, target: str = "") -> None:
        from crucible.client.answers import words
        from crucible.sandbox.workspace.changes import compare

        self._sandbox = sandbox
        self._target = target
        self._baseline, answer = self._manifest("baseline", {"target": target} if target else {})
        self.host_directory = words(answer, "host_directory")
        self._path = words(answer, "path")
        self._current, _ = self._manifest("tree", {"path": self._path, "hashed": True})
        self.changes: Changes = compare(self._baseline, self._current)

    def shown(self, name: bytes) -> str:
        """A name as people read it: with the mount's place, if it is of one."""
        return f"{self._target}/{_text(name)}" if self._target else _text(name)

    def rows(self) -> list[dict[str, str]]:
        mount = {"mount": self._target} if self._target else {}
        return [
            {"path": _text(change.name), "change": str(change.kind), **mount}
            for change in self.changes.all
        ]

    def show(self) -> None:
        """The diff on stdout. On a terminal nothing of it can steer that; in a pipe its bytes are exact."""
        import sys
        from pathlib import Path

        from crucible.sandbox.workspace.diff import render_diff
        from crucible.sandbox.workspace.hosttree import HostTree

        if self._target and self.changes:
            from crucible.cli import render

            # Programs that take patches pass over such a line.
            render.say(f"Mount {render.visible(f'{self._target} from {self.host_directory}')}")
        is_terminal = sys.stdout.isatty()
        with HostTree(Path(self.host_directory)) as tree:
            lines = render_diff(self.changes, tree.read, self._read, is_terminal=is_terminal)
            for line in lines:
                sys.stdout.buffer.write(line.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()

    def apply(self, *, force: bool, allow_outside_links: bool, allow_git_control: bool) -> Applied:
        from pathlib import Path

        from crucible.sandbox.workspace.applying import ApplyRules, apply_changes
        from crucible.sandbox.workspace.changes import advance

        rules = ApplyRules(
            force=force,
            allow_outside_links=allow_outside_links,
            allow_git_control=allow_git_control,
        )
        directory = Path(self.host_directory)
        applied = apply_changes(directory, self.changes, self._fetch, rules=rules)
        self._keep_baseline(advance(self._baseline, applied.done))
        return applied

    def _manifest(self, verb: str, fields: dict[str, object]) -> tuple[Manifest, dict[str, object]]:
        from crucible.cli.service import ask_owner
        from crucible.client.flows import CallSink
        from crucible.client.protocol import OUTPUT
        from crucible.errors import PathRefused
        from crucible.sandbox.workspace.manifest import parse_manifest

        lines = bytearray()

        def keep(data: bytes) -> None:
            if len(lines) + len(data) > _MOST_MANIFEST_BYTES:
                raise PathRefused("The sandbox's workspace has more files than can be compared")
            lines.extend(data)

        request = {"name": self._sandbox, **fields}
        sinks = {OUTPUT: CallSink(keep)}
        answer = ask_owner(verb, request, sinks=sinks, doing="looking at the workspace")
        return parse_manifest(bytes(lines).splitlines()), answer

    def _read(self, name: bytes, limit: int) -> bytes:
        return b"".join(self._fetch_some(name, limit))

    def _fetch(self, name: bytes) -> Iterator[bytes]:
        """A file as it was compared, and one byte more if it has grown since: enough to notice."""
        return self._fetch_some(name, self._current.entries[name].size + 1)

    def _fetch_some(self, name: bytes, length: int) -> Iterator[bytes]:
        """The beginning of a file of the guest, by way of a temporary file when it is large."""
        import tempfile

        from crucible.cli.service import ask_owner
        from crucible.client.flows import CallSink
        from crucible.client.protocol import OUTPUT

        path = f"{self._path}/{_text(name)}"
        request = {"name": self._sandbox, "path": path, "length": length}
        with tempfile.SpooledTemporaryFile(max_size=1 << 22) as file:
            ask_owner("read", request, sinks={OUTPUT: CallSink(file.write)}, doing="reading")
            file.seek(0)
            while data := file.read(1 << 18):
                yield data

    def _keep_baseline(self, baseline: Manifest) -> None:
        """What was taken over is not shown again."""
        from crucible.config import load_config
        from crucible.sandbox.records import open_records
        from crucible.sandbox.seeding import baseline_name
        from crucible.sandbox.workspace.manifest import manifest_lines

        directory = open_records(load_config().home).find(self._sandbox).directory
        name = baseline_name(self._target)
        building = directory / f".{name}"
        with building.open("wb") as file:
            file.writelines(manifest_lines(baseline))
        building.replace(directory / name)


def _agreed(workspace: _Workspace) -> bool:
    """Asks a person if there is one; a script that says apply means it."""
    from crucible.cli.consent import agreed, is_somebody_there

    count = len(workspace.changes.all)
    question = f"Write these {count} changes to {workspace.host_directory}?"
    return not is_somebody_there() or agreed(question)


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


_NAME = Operand(
    "NAME", "the sandbox, made with --dir or a writable --mount, and running", complete="sandbox"
)

COMMANDS = (
    Command(
        "diff",
        diff,
        operands=(_NAME,),
        options=(
            Option("names", "only what changed, without contents"),
            Option("json", "print JSON: paths and what happened to them"),
        ),
        notes="The output can be given to `git apply` or `patch -p1`.",
        examples=(
            ("crucible diff box", "what the sandbox changed in its copy of your directory"),
            ("crucible diff box > changes.patch", "keep it as a patch"),
        ),
    ),
    Command(
        "apply",
        apply,
        operands=(_NAME,),
        options=(
            Option("yes", "do not ask, also on a terminal", short="y"),
            Option("force", "overwrite files that were changed on the host too", short="f"),
            Option("allow-outside-links", "also write links that lead out of the directory"),
            Option("allow-git-control", "also write git's hooks and configuration"),
        ),
        notes="""\
Shows the diff first and asks, if there is somebody to ask. Files that were changed on
the host meanwhile, links that lead out of the directory and files that git would run
or obey are left alone, and the exit status is then 126.""",
        examples=(("crucible apply box", "see the changes and take them over"),),
    ),
)
