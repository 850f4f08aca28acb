"""What JavaScript's calls return, where it can be told."""

from __future__ import annotations

from collections.abc import Sequence

from crucible.agent.risk.names import words_of
from crucible.agent.risk.programs import javascript_names as names
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

_SAME = words_of("toString trim normalize valueOf trimEnd trimStart slice")


def module_path(name: str) -> str:
    """`node:fs/promises` and `fs` are one."""
    plain = name.removeprefix("node:")
    return "fs" if plain in ("fs/promises", "fs-extra", "graceful-fs") else plain


def result_of(callee: Value, effect: str, arguments: Sequence[Value]) -> Value:
    path = callee.path
    first = arguments[0] if arguments else UNKNOWN
    if path in names.PLACES:
        return text_value(names.PLACES[path])
    if effect == "network":
        return Value(path=f"{path}()", sources=joined_sources(arguments) | {FETCHED})
    match path:
        case "atob":
            return decoded("base64", first)
        case "Buffer.from":
            form = (arguments[1].text or "") if len(arguments) > 1 else ""
            return decoded(form, first) if form in ("base64", "hex") else first
        case "unescape" | "decodeURIComponent":
            return Value(sources=first.sources | {DECODED}) if first.text is None else first
        case "String.fromCharCode" | "String.fromCodePoint":
            return _characters(arguments)
        case "path.join" | "path.resolve":
            return joined_path(list(arguments))
        case "String" | "String.raw":
            return first
        case "fs.readFile" | "fs.readFileSync":
            stolen = first.text is not None and is_credential(first.text)
            return Value(path=f"{path}()", sources=frozenset({SECRET}) if stolen else frozenset())
    return _method(callee, arguments)


def _method(callee: Value, arguments: Sequence[Value]) -> Value:
    holder, name = callee.holder or UNKNOWN, callee.path.rpartition(".")[2]
    sources = holder.sources | joined_sources(arguments)
    if name in _SAME and holder.text is not None:
        return holder
    match name:
        case "split" if holder.known_text is not None and arguments and arguments[0].text == "":
            letters = tuple(text_value(letter) for letter in holder.known_text[:4096])
            return Value(items=letters, sources=sources)
        case "reverse":
            return reversed_value(holder)
        case "join" if holder.items is not None:
            return _joined(holder, arguments)
        case "concat" if holder.text is not None:
            return concatenated([holder, *arguments])
        case "replace" | "replaceAll" if holder.text is not None:
            return Value(sources=sources | {BUILT})
        case "toLowerCase" | "toUpperCase" if holder.text is not None:
            changed = holder.text.lower() if name == "toLowerCase" else holder.text.upper()
            return text_value(changed, sources | {BUILT})
    return Value(path=f"{callee.path}()" if callee.path else "", sources=sources)


def _joined(holder: Value, arguments: Sequence[Value]) -> Value:
    separator = arguments[0].text if arguments and arguments[0].text is not None else ","
    parts: list[Value] = []
    for item in holder.items or ():
        parts += [item] if not parts else [text_value(separator), item]
    return concatenated(parts).from_(*holder.sources) if parts else text_value("")


def _characters(arguments: Sequence[Value]) -> Value:
    codes = [value.number for value in arguments]
    if codes and all(code is not None and 0 <= code < 0xD800 for code in codes):
        return text_value("".join(chr(code or 0) for code in codes), frozenset({DECODED}))
    return Value(sources=frozenset({DECODED}))
