"""Commands that run other commands: `env`, `sudo`, `timeout`, `xargs`, `find -exec`, `sh -c`, `python3 -c`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from crucible.agent.risk.places import HOLE
from crucible.agent.risk.report import Language
from crucible.agent.risk.shell.commands import (
    BUILT,
    NOWHERE,
    UNKNOWN_WORD,
    Command,
    Script,
    Word,
    known,
)

# Name: (options that take the next word, how many words come before the command).
_WRAPPERS: dict[str, tuple[str, int]] = {
    "sudo": ("-u -g -h -p -C -r -t -D -R -T -U --user --group --chdir", 0),
    "doas": ("-u -C", 0),
    "env": ("-u -C --unset --chdir", 0),
    "nice": ("-n --adjustment", 0),
    "ionice": ("-c -n -p", 0),
    "nohup": ("", 0),
    "setsid": ("", 0),
    "timeout": ("-s -k --signal --kill-after", 1),
    "time": ("-f -o", 0),
    "command": ("", 0),
    "builtin": ("", 0),
    "exec": ("-a", 0),
    "coproc": ("", 0),
    "stdbuf": ("-i -o -e", 0),
    "busybox": ("", 0),
    "toybox": ("", 0),
    "chroot": ("", 1),
    "unshare": ("-w -S -G", 0),
    "nsenter": ("-t -S -G", 0),
    "setpriv": ("", 0),
    "runuser": ("-u -g", 0),
    "pkexec": ("--user", 0),
    "flock": ("-w -E", 1),
    "taskset": ("", 1),
    "strace": ("-e -o -p -s -u", 0),
    "ltrace": ("-e -o -p -s -u", 0),
    "xargs": ("-I -n -P -d -L -s -a -E --max-args --max-procs --delimiter", 0),
    "parallel": ("-j -I", 0),
    "unbuffer": ("", 0),
    "catchsegv": ("", 0),
    "eatmydata": ("", 0),
    "fakeroot": ("", 0),
    "proot": ("-r -b -w", 0),
    "firejail": ("", 0),
    "systemd-run": ("-p -u --unit", 0),
    "dbus-run-session": ("", 0),
    "ssh-agent": ("-a -t", 0),
    "xvfb-run": ("-n -s -w", 0),
    "rlwrap": ("", 0),
    "numactl": ("", 0),
    "prlimit": ("", 0),
    "chrt": ("", 1),
    "setarch": ("", 1),
    "linux64": ("", 0),
    "cgexec": ("-g", 0),
    "screen": ("-S", 0),
    "torsocks": ("", 0),
    "proxychains": ("-f", 0),
    "proxychains4": ("-f", 0),
    "faketime": ("", 1),
    "valgrind": ("", 0),
    "cpulimit": ("-l -p", 0),
    "gdb": ("-x -ex", 0),
    "uv": ("", -1),
    "poetry": ("", -1),
    "pipenv": ("", -1),
    "conda": ("", -1),
    # Words of the shell that the grammar takes for a command's name when they stand behind another.
    **dict.fromkeys(("{", "if", "then", "elif", "else", "while", "until", "do", "!"), ("", 0)),
}
_COMPOUND = frozenset({"{", "if", "while", "until", "for", "case", "select"})
SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "ash", "mksh", "fish", "rbash"})
_SHELL_VALUES = frozenset({"--rcfile", "--init-file"})
_PYTHONS = re.compile(r"(python|pypy)[0-9.]*$")
_NODES = frozenset({"node", "nodejs", "deno", "bun", "ts-node", "tsx"})
_OTHERS = {"perl": "eE", "ruby": "e", "php": "r", "lua": "e", "Rscript": "e", "osascript": "e"}
_STDIN = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_HARMLESS_OPTIONS = frozenset({"-i", "-l", "-u", "-B", "-e", "-x", "-eu", "-ex"})
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*=")


def inner_of(command: Command) -> Iterator[Command | Script]:
    """The commands and programs that it runs in its turn, one level down."""
    name = command.name
    if name in _WRAPPERS:
        yield from _wrapped(command)
    if name in SHELLS:
        yield from _of_shell(command)
    elif name == "eval" and command.arguments:
        yield Script(word=_joined(command.arguments), language=Language.SHELL, via=command)
    elif name in ("su", "runuser", "script", "sg", "watch", "flock"):
        yield from _of_option_c(command)
    elif name in ("find", "fd"):
        yield from _of_find(command)
    elif name == "alias":
        for word in command.arguments:
            _, equals, body = word.text.partition("=")
            if equals:
                yield Script(word=known(body), language=Language.SHELL, via=command)
    elif name in ("mapfile", "readarray", "compgen", "complete"):
        for option, word in pairwise(command.arguments):
            if option.text == "-C":
                yield Script(word=word, language=Language.SHELL, via=command)
    elif name == "trap" and len(command.arguments) > 1:
        yield Script(word=command.arguments[0], language=Language.SHELL, via=command)
    elif _PYTHONS.match(name):
        yield from _of_interpreter(command, "c", Language.PYTHON)
    elif name in _NODES:
        yield from _of_interpreter(command, "ep", Language.JAVASCRIPT)
    elif name in _OTHERS:
        yield from _of_interpreter(command, _OTHERS[name], None)


def is_wrapper(name: str) -> bool:
    """Whether what it runs is handed over by `inner_of`."""
    return name in _WRAPPERS


def is_interpreter(name: str) -> bool:
    return name in SHELLS or name in _NODES or name in _OTHERS or bool(_PYTHONS.match(name))


def reads_program(command: Command) -> Language | bool | None:
    """The language of the program that it takes from its input; False when it takes none from there."""
    name = command.name
    if name in (".", "source"):
        return Language.SHELL if command.texts[:1] and command.texts[0] in _STDIN else False
    if not is_interpreter(name):
        return False
    rest = [text for text in command.texts if text not in _STDIN and text not in _HARMLESS_OPTIONS]
    if name in SHELLS and any(re.fullmatch(r"-\w*s\w*", text) for text in command.texts):
        rest = []
    if rest and not all(text.startswith("-") and text[1:2] not in "cmep" for text in rest):
        return False
    if name in SHELLS:
        return Language.SHELL
    if _PYTHONS.match(name):
        return Language.PYTHON
    return Language.JAVASCRIPT if name in _NODES else None


def _wrapped(command: Command) -> Iterator[Command | Script]:
    valued, positions = _WRAPPERS[command.name]
    words = list(command.arguments)
    if positions < 0:
        # `uv run …` and its like: a word of their own comes first.
        if not words or words[0].text != "run":
            return
        words, positions = words[1:], 0
    options = valued.split()
    if command.name == "coproc" and len(words) > 1 and words[1].text in _COMPOUND:
        words.pop(0)
    if command.name == "command" and any(word.text in ("-v", "-V") for word in words[:1]):
        return
    while words:
        text = words[0].text
        if command.name == "env" and text.startswith(("-S", "--split-string")):
            rest = text.removeprefix("--split-string").removeprefix("-S").removeprefix("=")
            parts = ([known(rest)] if rest else []) + words[1:]
            yield Script(word=_joined(tuple(parts)), language=Language.SHELL, via=command)
            return
        if text == "--":
            words.pop(0)
            break
        if text.startswith("-") and len(text) > 1:
            del words[: 2 if text in options else 1]
        elif _ASSIGNMENT.match(text) or text == "-" or (command.name == "env" and "=" in text):
            words.pop(0)
        else:
            break
    words = words[positions:]
    while words and _ASSIGNMENT.match(words[0].text):
        words.pop(0)
    if not words:
        if command.name == "parallel":
            yield Script(word=UNKNOWN_WORD, language=Language.SHELL, via=command)
        return
    if command.name in ("xargs", "parallel"):
        words = _with_input(command, words)
    yield command.with_words(words)


def _with_input(command: Command, words: list[Word]) -> list[Word]:
    """What is read comes last, or wherever the mark of `-I` stands."""
    texts = command.texts
    mark = next(
        (texts[at + 1] for at, text in enumerate(texts[:-1]) if text in ("-I", "--replace")), ""
    )
    mark = mark or next((text[2:] for text in texts if text.startswith("-I") and len(text) > 2), "")
    if not mark:
        return [*words, UNKNOWN_WORD]
    return [
        Word(
            text=word.text.replace(mark, HOLE),
            shape=word.shape.replace(mark, HOLE),
            sources=word.sources,
        )
        for word in words
    ]


def _of_shell(command: Command) -> Iterator[Script]:
    words = list(command.arguments)
    takes_program = False
    while words and words[0].text.startswith(("-", "+")):
        text = words.pop(0).text
        takes_program = takes_program or bool(re.fullmatch(r"-[a-zA-Z]*c[a-zA-Z]*", text))
        if text in _SHELL_VALUES or re.fullmatch(r"[-+][a-zA-Z]*[oO]", text):
            del words[:1]
    if takes_program and words:
        yield Script(word=words[0], language=Language.SHELL, via=command)


def _of_option_c(command: Command) -> Iterator[Script]:
    words = command.arguments
    for number, word in enumerate(words):
        if word.text in ("-c", "--command", "-qc", "-lc") and number + 1 < len(words):
            yield Script(word=words[number + 1], language=Language.SHELL, via=command)
            return
        attached = word.text.removeprefix("--command=").removeprefix("-c")
        if attached != word.text and attached:
            yield Script(word=known(attached, word.sources), language=Language.SHELL, via=command)
            return
    if command.name == "watch":
        rest = [word for word in words if not word.text.startswith("-") and not word.text.isdigit()]
        if rest:
            yield Script(word=_joined(tuple(rest)), language=Language.SHELL, via=command)


def _of_find(command: Command) -> Iterator[Command]:
    start = None
    for number, word in enumerate(command.arguments):
        if start is None and word.text in ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X"):
            start = number + 1
        elif start is not None and word.text in (";", "+"):
            yield command.with_words(command.arguments[start:number])
            start = None
    if start is not None and command.arguments[start:]:
        yield command.with_words(command.arguments[start:])


def _of_interpreter(command: Command, letters: str, language: Language | None) -> Iterator[Script]:
    words = command.arguments
    for number, word in enumerate(words):
        text = word.text
        takes_next = (
            text in ("--eval", "--print")
            or (command.name in ("deno", "bun") and text == "eval")
            or re.fullmatch(rf"-[a-zA-Z0-9]*[{letters}]", text)
        )
        if takes_next and number + 1 < len(words):
            yield Script(word=words[number + 1], language=language, via=command)
        elif language is Language.PYTHON and text.startswith("-c") and len(text) > 2:
            yield Script(word=known(text[2:], word.sources), language=language, via=command)
        elif text.startswith("-"):
            continue
        return


def _joined(words: tuple[Word, ...]) -> Word:
    sources = NOWHERE.union(*(word.sources for word in words))
    if len(words) > 1:
        sources |= {BUILT}
    text = " ".join(word.text for word in words)
    return Word(text=text, shape=" ".join(word.shape for word in words), sources=sources)
