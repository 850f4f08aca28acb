"""The user's own words, sentence by sentence: what they typed without what they pasted, quoted, asked or imagined.

A text that comes from elsewhere (a file, a page, a program's output) may be written to be remembered. Who pastes it has
not said it.
"""

from __future__ import annotations

import re

MOST_LETTERS = 20_000
_MOST_SENTENCES = 200
_LONGEST_SENTENCE = 600

_FENCE = re.compile(r"(?:^|\n)[ \t]*(```+|~~~+).*?(?:\n[ \t]*\1|\Z)", re.DOTALL)
_TAGGED = re.compile(r"<([A-Za-z][\w:-]{0,60})\b[^<>]{0,500}>.*?(?:</\1\s*>|\Z)", re.DOTALL)
_COMMENT = re.compile(r"<!--.*?(?:-->|\Z)", re.DOTALL)
_BRACKETED = re.compile(
    r"\[(?:BEGIN|START)\b[^\]]{0,200}\].*?(?:\[(?:END|STOP)\b[^\]]{0,200}\]|\Z)", re.DOTALL
)
_BANNERED = re.compile(r"^([-=*#]{3,}).*?(?:^\1|\Z)", re.DOTALL | re.MULTILINE)
_INLINE_CODE = re.compile(r"`[^`\n]*`")
# No mark that opens may follow itself: a line of nothing else would be read from each of them to its end.
_IN_QUOTES = re.compile(
    r"\"[^\"\n]{3,2000}\"|“[^“”\n]{3,2000}”|„[^„“”\n]{3,2000}[“”]|«[^«»\n]{3,2000}»|"
    r"(?<!\w)'[^'\n]{12,2000}'(?!\w)"
)
# What a line of output, a log, a diff or a quoted mail begins with.
_FOREIGN_LINE = re.compile(
    r"\s*(?:[>|$%#]|\+\+\+|---|@@|[+-]\s|\d{4}-\d\d-\d\d[T ]\d\d:|"
    r"\[\d|(?:DEBUG|INFO|WARN(?:ING)?|ERROR|TRACE)\b|Traceback\b|File \""
    r"|(?:user|assistant|system|tool|human|ai)\s*:|(?:from|to|subject|date):\s|[\w./-]+:\d+:|[{}\[\]])",
    re.IGNORECASE,
)
# What announces that the rest is somebody else's.
_ANNOUNCES = re.compile(
    r"(?:\b(?:file|page|output|log|mail|email|message|article|document|text|following|readme|error|letter|"
    r"transcript|prompt|result|review|post|story|poem)s?\b"
    r"[^.!?\n]{0,60}|\b(?:says?|said|reads?|wrote|writes|states?|contains?|returned|printed|prints|shows?|told "
    r"me|goes|summari[sz]e|translate|proofread"
    r"|rewrite|correct|fix|explain|analy[sz]e|review)\b[^.!?\n]{0,60}):(?=\s|$)"
    # "Please proofread this", with what it is about below.
    r"|\b(?:summari[sz]e|translate|proofread|rewrite|rephrase|paraphrase|polish|shorten|correct|review|edit)\b"
    r"[^.!?\n]{0,40}\b(?:this|these|it|the following|below)\b[^.!?\n]{0,40}[.!]?\s*$",
    re.IGNORECASE,
)
_END = re.compile(r"(?<=[.!?…;])[\"”’)\]]*\s+(?=\S)|(?<=[。！？])(?=\S)|\n+")
_SHORT_FORMS = re.compile(
    r"\b(?:mr|mrs|ms|dr|prof|st|jr|sr|vs|etc|e\.g|i\.e|no|approx|inc|ltd)\.$", re.IGNORECASE
)


def own_words(text: str) -> str:
    """What the user wrote themselves, as lines; pasted and quoted matter is left out."""
    text = text[:MOST_LETTERS].replace("\r\n", "\n").replace("\r", "\n")
    for pattern in (_FENCE, _COMMENT, _TAGGED, _BRACKETED, _BANNERED):
        text = pattern.sub("\n", text)
    kept: list[str] = []
    for line in map(str.rstrip, text.split("\n")):
        announced = _ANNOUNCES.search(line)
        own = line[: announced.end()] if announced else line
        if not _FOREIGN_LINE.match(own):
            kept.append(_IN_QUOTES.sub(" ", _INLINE_CODE.sub(_code_word, own)))
        if announced:
            break
    return "\n".join(kept).strip()


def sentences(words: str) -> list[str]:
    """Each with its mark at the end, which tells a question from a statement."""
    found: list[str] = []
    held = ""
    for piece in _END.split(words):
        held = f"{held} {piece}".strip()
        if not held or _SHORT_FORMS.search(held):
            continue
        if len(held) <= _LONGEST_SENTENCE:
            found.append(" ".join(held.split()))
        held = ""
        if len(found) >= _MOST_SENTENCES:
            break
    return [*found, held] if held and len(held) <= _LONGEST_SENTENCE else found


def _code_word(match: re.Match[str]) -> str:
    """A single word in backticks is part of what is said: "I prefer `ruff`"."""
    inside = match.group()[1:-1]
    return inside if re.fullmatch(r"[\w.+#-]{1,40}", inside) else " "
