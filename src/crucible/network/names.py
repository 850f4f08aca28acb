"""Host names: one spelling for each, and no name that could be taken for something else."""

from __future__ import annotations

import re
from typing import Final

MAX_NAME: Final = 253
OWN_SUFFIX: Final = ".crucible.internal"

_LABEL: Final = re.compile(r"(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER: Final = re.compile(r"[0-9]+|0x[0-9a-f]*")
# IDNA 2003, which Python has, maps these to other letters or to nothing; the newer one keeps them.
_AMBIGUOUS: Final = frozenset("ßẞς\u200c\u200d")
# Names that only a private network answers, and the names of clouds' metadata services.
_PRIVATE_ENDS: Final = (
    "localhost",
    "local",
    "localdomain",
    "internal",
    "intranet",
    "private",
    "corp",
    "home",
    "lan",
    "home.arpa",
    "in-addr.arpa",
    "ip6.arpa",
    "metadata.goog",
    "metadata.tencentyun.com",
)


def normal_name(text: str) -> str | None:
    """The one spelling of a host name: lower case, ASCII, no dot at the end. None if it is none.

    A name whose last label is a number is none: C libraries read `127.1` and `0x7f000001` as addresses.
    """
    if not text or len(text) > MAX_NAME + 1:
        return None
    ascii_text = text if text.isascii() else _punycode(text)
    if ascii_text is None:
        return None
    name = ascii_text.lower().removesuffix(".")
    labels = name.split(".")
    if len(name) > MAX_NAME or not all(_LABEL.fullmatch(label) for label in labels):
        return None
    if _NUMBER.fullmatch(labels[-1]):
        return None
    return name


def is_public_name(name: str) -> bool:
    """Whether a normal name could be a name of the public internet."""
    if "." not in name:
        return False
    return not any(name == end or name.endswith("." + end) for end in _PRIVATE_ENDS)


def shown(text: str) -> str:
    """A name of the guest's making, fit for a log: short, and without a character that steers a terminal."""
    cut = text if len(text) <= MAX_NAME else text[: MAX_NAME - 3] + "..."
    return cut if cut.isascii() and cut.isprintable() else ascii(cut)[1:-1]


def _punycode(text: str) -> str | None:
    if _AMBIGUOUS.intersection(text):
        return None
    try:
        return text.encode("idna").decode("ascii")
    except UnicodeError:
        return None
