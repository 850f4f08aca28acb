"""Names of files that come from outside: one that a directory takes and that shows what it is, or none at all."""

from __future__ import annotations

import re
import unicodedata

from crucible.errors import BadFileName

LONGEST_NAME = 255
# Left over from a time long gone, and still no names where the file may be saved.
_RESERVED = re.compile(r"(con|prn|aux|nul|com[0-9¹²³]|lpt[0-9¹²³])(\..*)?", re.IGNORECASE)
_UNSEEN = frozenset(("Cc", "Cs", "Cn", "Co", "Zl", "Zp"))
# Emoji are joined with these.
_JOINERS = "\u200c\u200d"


def check_name(text: str) -> str:
    """The name as it is kept, in one form of Unicode. Raises BadFileName."""
    if len(text) > 4 * LONGEST_NAME:
        raise BadFileName("it is too long")
    name = unicodedata.normalize("NFC", text).strip()
    if any(_is_unseen(one) for one in name):
        raise BadFileName("it has characters that control, hide or turn around what stands there")
    if "/" in name or "\\" in name:
        raise BadFileName("it has a separator of directories")
    if not name.strip("."):
        raise BadFileName("it is empty, or has only dots")
    if len(name.encode()) > LONGEST_NAME:
        raise BadFileName(f"it has more than {LONGEST_NAME} bytes")
    if _RESERVED.fullmatch(name) or name.endswith("."):
        raise BadFileName("it is reserved by some systems")
    return name


def safe_name(text: str) -> str:
    """For a file of a sandbox that is saved elsewhere: whatever is no name is made one."""
    seen = "".join(
        "_" if one in '/\\:*?"<>|' else one for one in text[:1000] if not _is_unseen(one)
    )
    name = unicodedata.normalize("NFC", seen).strip(" .")
    name = name.encode()[: LONGEST_NAME - 20].decode(errors="ignore").strip(" .")
    if not name:
        return "file"
    return f"_{name}" if _RESERVED.fullmatch(name) else name


def _is_unseen(one: str) -> bool:
    category = unicodedata.category(one)
    return category in _UNSEEN or (category == "Cf" and one not in _JOINERS)
