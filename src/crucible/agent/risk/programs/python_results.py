"""What Python's calls return, where it can be told: texts made of texts, paths, what was decoded or fetched."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from crucible.agent.risk.names import words_of
from crucible.agent.risk.places import HOLE
from crucible.agent.risk.programs import python_names as names
from crucible.agent.risk.programs.calls import is_credential
from crucible.agent.risk.programs.values import (
    BUILT,
    DECODED,
    FETCHED,
    SECRET,
    UNKNOWN,
    Value,
    concatenated,
    decoded,
    joined_path,
    joined_sources,
    reversed_value,
    text_value,
)

_SAME = words_of(
    "decode encode strip lstrip rstrip expandtabs resolve absolute expanduser as_posix copy"
)


def result_of(
    callee: Value, effect: str, arguments: Sequence[Value], named: Mapping[str, Value]
) -> Value:
    path = callee.path
    if path in names.PLACES:
        made = "pathlib.Path()" if path.startswith("pathlib") else ""
        return Value(path=made, text=names.PLACES[path])
    if path in names.DECODERS:
        return _decoded(path, arguments)
    if effect == "network":
        sources = joined_sources(arguments) | {FETCHED}
        return Value(path=f"{path}()", sources=sources, text=_base_of(arguments, named))
    match path:
        case "pathlib.Path" | "pathlib.PurePath" | "pathlib.PurePosixPath":
            joined = joined_path(list(arguments)) if arguments else text_value(".")
            return Value(path="pathlib.Path()", text=joined.text, sources=joined.sources)
        case "os.path.join":
            return joined_path(list(arguments))
        case (
            "os.path.expanduser"
            | "os.path.abspath"
            | "os.path.realpath"
            | "os.path.normpath"
            | "os.fspath"
        ):
            return arguments[0] if arguments else UNKNOWN
        case (
            "str" | "bytes" | "repr" | "compile" | "dict" | "bytearray" | "memoryview" | "glob.glob"
        ):
            return _first(path, arguments)
        case "reversed":
            return reversed_value(arguments[0]) if arguments else UNKNOWN
        case "chr":
            return _character(arguments)
        case "os.walk" | "os.scandir" | "open" | "io.open":
            return _opened(path, arguments)
    return _method(callee, arguments, named)


def _decoded(path: str, arguments: Sequence[Value]) -> Value:
    value = arguments[0] if arguments else UNKNOWN
    kind = names.DECODERS[path]
    if path == "codecs.decode":
        form = (arguments[1].text or "") if len(arguments) > 1 else ""
        kind = {"rot13": "rot13", "rot_13": "rot13", "hex": "hex", "base64": "base64"}.get(
            form, "other"
        )
        if kind == "other":
            return value
    return decoded(kind, value)


def _method(callee: Value, arguments: Sequence[Value], named: Mapping[str, Value]) -> Value:
    holder, name = callee.holder or UNKNOWN, callee.path.rpartition(".")[2]
    sources = holder.sources | joined_sources(arguments)
    if name in _SAME and (holder.text is not None or holder.path == "os.environ"):
        return holder
    if holder.path == "pathlib.Path()" and name in (
        "joinpath",
        "glob",
        "rglob",
        "read_text",
        "read_bytes",
        "open",
    ):
        return _of_path(holder, name, arguments)
    if holder.text is not None and not holder.path:
        return _of_text(holder, name, arguments, sources)
    base = _base_of(arguments, named)
    return Value(path=f"{callee.path}()" if callee.path else "", sources=sources, text=base)


def _of_path(holder: Value, name: str, arguments: Sequence[Value]) -> Value:
    if name == "joinpath":
        joined = joined_path([holder, *arguments])
        return Value(path="pathlib.Path()", text=joined.text, sources=joined.sources)
    if name in ("glob", "rglob"):
        return Value(path=f"pathlib.Path().{name}()", text=holder.text)
    stolen = holder.text is not None and is_credential(holder.text)
    return Value(sources=holder.sources | ({SECRET} if stolen else set()))


def _of_text(
    holder: Value, name: str, arguments: Sequence[Value], sources: frozenset[str]
) -> Value:
    text = holder.text or ""
    match name:
        case "join":
            return _joined(text, arguments)
        case "lower" | "upper" | "swapcase":
            return text_value(getattr(text, name)(), sources | {BUILT})
        case "replace" if (
            len(arguments) >= 2 and arguments[0].known_text and arguments[1].text is not None
        ):
            return text_value(
                text.replace(arguments[0].known_text, arguments[1].text), sources | {BUILT}
            )
        case "format":
            return text_value(
                HOLE.join(part.partition("}")[2] or part for part in text.split("{")), sources
            )
        case "split" | "splitlines":
            return Value(sources=sources)
    return Value(sources=sources)


def _joined(separator: str, arguments: Sequence[Value]) -> Value:
    parts = arguments[0] if arguments else UNKNOWN
    if parts.items is None:
        if parts.text is not None and not separator:
            return parts
        return Value(sources=parts.sources)
    spaced: list[Value] = []
    for item in parts.items:
        spaced += [item] if not spaced else [text_value(separator), item]
    value = concatenated(spaced) if spaced else text_value("")
    return value.from_(*parts.sources)


def _first(path: str, arguments: Sequence[Value]) -> Value:
    if not arguments:
        return UNKNOWN
    value = arguments[0]
    if path in ("bytes", "bytearray") and value.items is not None:
        codes = [item.number for item in value.items]
        if codes and all(code is not None and 0 <= code < 256 for code in codes):
            return text_value("".join(chr(code or 0) for code in codes), value.sources | {DECODED})
    return value


def _character(arguments: Sequence[Value]) -> Value:
    number = arguments[0].number if arguments else None
    if number is not None and 0 <= number < 0xD800:
        return text_value(chr(number), frozenset({DECODED}))
    return Value(sources=frozenset({DECODED}))


def _opened(path: str, arguments: Sequence[Value]) -> Value:
    value = arguments[0] if arguments else UNKNOWN
    if path in ("open", "io.open"):
        stolen = value.text is not None and is_credential(value.text)
        return Value(path="open()", sources=frozenset({SECRET}) if stolen else frozenset())
    return Value(path=f"{path}()", text=value.text)


def _base_of(arguments: Sequence[Value], named: Mapping[str, Value]) -> str | None:
    """The address that a client was made with, for what is asked of it later."""
    base = named.get("base_url")
    return base.text if base is not None else None
