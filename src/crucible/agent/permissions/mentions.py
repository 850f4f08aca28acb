"""Whether a command might run a denied one in a way that is not read: as words or text among its arguments.

`tmux new -d 'git push'` runs it, `echo 'git push'` does not, and there is no list of all programs that do. So a mention
never is a match: it is reason to ask.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from crucible.agent.permissions.patterns import Pattern
from crucible.agent.risk.names import words_of
from crucible.agent.risk.shell.commands import Command
from crucible.agent.risk.shell.reaching import git_verb
from crucible.agent.risk.shell.wrappers import is_wrapper

# Programs that only look at their arguments, write them or name files by them.
_PLAIN = words_of(
    "echo printf cat head tail wc sort uniq cut tr grep egrep fgrep rg ls cp mv mkdir rmdir touch rm ln stat file du "
    "df diff cmp comm tee jq chmod chown test [ true false : cd pushd popd pwd sleep date basename dirname realpath "
    "readlink id whoami uname hostname which type seq expr md5sum sha256sum base64 xxd od strings zip unzip gzip "
    "gunzip kill pkill pgrep ps wait return exit break continue shift set unset man info apt apt-get apk dnf pip pip3 "
    "brew alias"
)
_PLAIN_IN_GIT = words_of(
    "add blame branch checkout cherry-pick commit describe diff log ls-files merge mv notes restore revert rm shortlog "
    "show stash status switch tag"
)
# What a word has in it that may be a command of its own, or a program in another language.
_TEXT = re.compile(r"""[\s"'`(=!:;|&]""")
_BETWEEN = re.compile(r"[^\w./-]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Mentions:
    """`words` is all that a command was given, in a row; `texts` what of it could be a command or a program."""

    words: str = ""
    texts: str = ""

    def has(self, pattern: Pattern) -> bool:
        search = _search(pattern)
        if search is None:
            return False
        return search.is_in(self.texts) or (search.has_two_words and search.is_in(self.words))


def mentions_of(command: Command) -> Mentions:
    variables = [
        word.text for name, word in command.assignments if name != name.lower() or not name
    ]
    given = [] if command.stdin is None or command.stdin.text is None else [command.stdin.text]
    is_read = command.name in _PLAIN or is_wrapper(command.name)
    return _mentions(_unread(command), variables if is_read else variables + given)


def mentions_in_variable(name: str, value: str) -> Mentions:
    """Programs run what `PAGER` and its like say; those have capital letters in their names."""
    return _mentions([], [value] if name != name.lower() else [])


def _unread(command: Command) -> list[str]:
    if command.name == "git":
        verb, rest = git_verb(command.texts)
        if verb in _PLAIN_IN_GIT:
            return command.texts[: len(command.texts) - len(rest) - 1]
        return command.texts
    return [] if command.name in _PLAIN or is_wrapper(command.name) else command.texts


def _mentions(arguments: Sequence[str], others: Sequence[str]) -> Mentions:
    texts = [text for text in arguments if _TEXT.search(text)]
    return Mentions(words=_plain(arguments), texts=_plain([*texts, *others]))


def _plain(texts: Sequence[str]) -> str:
    return " ".join(_BETWEEN.sub(" ", text) for text in texts)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Search:
    """The parts of a pattern between its stars, each searched behind the one before: no way to match is missed."""

    parts: tuple[re.Pattern[str], ...]
    has_two_words: bool

    def is_in(self, text: str) -> bool:
        at = 0
        for part in self.parts:
            found = part.search(text, at)
            if found is None:
                return False
            at = found.end()
        return bool(text)


@lru_cache(maxsize=1024)
def _search(pattern: Pattern) -> _Search | None:
    """None where the pattern is about any command, or one by its digest."""
    if pattern.digest:
        return None
    text = "".join("\0" if _is_star(token) else token[-1:] for token in pattern.tokens)
    plain = [_BETWEEN.sub(" ", part) for part in text.split("\0")]
    plain = [part for part in plain if part.strip()]
    if not plain:
        return None
    first, last = plain[0].lstrip(), plain[-1]
    plain[0] = first
    parts = [re.escape(part) for part in plain]
    parts[0] = rf"(?<![\w.-]){parts[0]}"
    if not text.endswith("\0") and last.strip():
        parts[-1] = rf"{parts[-1].rstrip()}(?![\w-])"
    return _Search(
        parts=tuple(re.compile(part) for part in parts), has_two_words=" " in first.strip()
    )


def _is_star(token: str) -> bool:
    return token in ("\\*", "\\**", "\\?")
