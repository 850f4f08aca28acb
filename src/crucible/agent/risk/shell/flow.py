"""What commands hand on: what they print, as far as it is known, and where it comes from."""

from __future__ import annotations

from crucible.agent.risk.places import Place, place_of
from crucible.agent.risk.shell.commands import DECODED, FETCHED, NOWHERE, SECRET, Command, Stream
from crucible.agent.risk.shell.words import unescape_ansi

FETCHERS = frozenset({"curl", "wget", "http", "https", "aria2c", "lynx", "fetch", "xh", "w3m"})
_DECODERS: dict[str, frozenset[str]] = {
    "base64": frozenset({"-d", "--decode", "-D", "-di", "-id"}),
    "base32": frozenset({"-d", "--decode"}),
    "xxd": frozenset({"-r"}),
    "openssl": frozenset({"-d"}),
    "gzip": frozenset({"-d", "-dc"}),
    "xz": frozenset({"-d", "-dc"}),
    "gpg": frozenset({"-d", "--decrypt"}),
    "uudecode": NOWHERE,
    "rev": NOWHERE,
    "tr": NOWHERE,
    "gunzip": NOWHERE,
    "zcat": NOWHERE,
    "xzcat": NOWHERE,
    "bunzip2": NOWHERE,
}


def output_of(command: Command) -> Stream:
    name, texts = command.name, command.texts
    sources = frozenset[str]().union(*(word.sources for word in command.arguments))
    if name in ("echo", "printf"):
        return _printed(command, sources)
    if name == "mktemp":
        return Stream(text="/tmp/made")  # noqa: S108 - a place of the guest
    given = command.stdin or Stream()
    sources |= given.sources
    if name in FETCHERS:
        return Stream(sources=sources | {FETCHED})
    if name in _DECODERS:
        wanted = _DECODERS[name]
        is_decoding = not wanted or any(
            text in wanted or (name == "xxd" and text.startswith("-r")) for text in texts
        )
        return Stream(sources=sources | {DECODED} if is_decoding else sources)
    if any(place_of(text, directory=command.directory) is Place.CREDENTIALS for text in texts):
        sources |= {SECRET}
    if name == "cat" and not texts:
        return given
    return Stream(sources=sources)


def _printed(command: Command, sources: frozenset[str]) -> Stream:
    words = list(command.arguments)
    while words and words[0].text in ("-n", "-e", "-ne", "-en", "-E", "--"):
        words.pop(0)
    if not all(word.is_known for word in words):
        return Stream(sources=sources)
    if command.name == "echo" and not any(
        "e" in text for text in command.texts[:1] if text[:1] == "-"
    ):
        return Stream(text=" ".join(word.text for word in words), sources=sources)
    plain, coded = unescape_ansi(" ".join(word.text for word in words))
    if command.name == "printf" and "%" in plain:
        form, *values = [word.text for word in words]
        if form.count("%s") != form.count("%") or not values:
            return Stream(sources=sources | coded)
        plain = unescape_ansi("".join(form.replace("%s", value, 1) for value in values))[0]
    return Stream(text=plain, sources=sources | coded)
