"""Walks the syntax tree of a shell program and hands over its simple commands, in order, with their words expanded.

What the shell would do and a reader cannot know stays a hole. Nothing is run, and nothing is judged here.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crucible.agent.risk.places import HOLE, WORKSPACE, normalize
from crucible.agent.risk.shell.commands import (
    BUILT,
    NOWHERE,
    UNKNOWN_WORD,
    Command,
    Redirect,
    Stream,
    Word,
    known,
)
from crucible.agent.risk.shell.flow import output_of
from crucible.agent.risk.shell.words import (
    Piece,
    join,
    unescape_ansi,
    unescape_bare,
    unescape_double,
)

if TYPE_CHECKING:
    from ast_grep_py import SgNode

_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_EXPANSIONS = frozenset(
    {"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"}
)
_WORDS = _EXPANSIONS | {
    *(
        "word",
        "number",
        "raw_string",
        "string",
        "ansi_c_string",
        "translated_string",
        "concatenation",
    ),
    *("process_substitution", "brace_expression", "extglob_pattern", "regex"),
}
# Bash joins what stands around it; the grammar reads two words.
_GLUE = re.compile(r"[^\s;&|(]\\\n\S|\\\n#")
_PLAIN_EXPANSION = re.compile(r"\$\{?([A-Za-z_]\w*)\}?$")
_GAP = re.compile(r"(?:\s|\\\n|\\\r\n)*(?:-\s*)?")
# Within one command the end of a line may only be continued; the grammar takes some others for spaces.
_GAP_WITHIN = re.compile(r"(?:[ \t\r]|\\\n|\\\r\n)*(?:-[ \t]*)?")
_ONE_LINE = frozenset({"command", "declaration_command", "redirected_statement", "file_redirect"})
# The grammar takes the end of a line for a part of the next word when that begins with a backslash.
_ESCAPED = re.compile(r"\\.", re.DOTALL)
_NO_WORD = re.compile(r"[\s;&|<>]")
_BARE = frozenset({"word", "{", "brace_expression"})
_FILE_PATTERN = re.compile(r"[*?\[\]]+")
_APART = _WORDS | {"variable_assignment", "command_name"}
_NOTHING = Stream()


class Reader:
    """Subclasses say what is done with a command, an assignment, a variable, and with what does not parse."""

    def __init__(self, code: str) -> None:
        self._code = code
        self._variables: dict[str, Piece] = {}
        self.directory = WORKSPACE

    def read(self, root: SgNode) -> Stream:
        glue = _GLUE.search(self._code)
        if glue:
            self.on_split_word(self._code.count("\n", 0, glue.start()), glue.group())
        return self._visit(root, None)

    def on_command(self, command: Command) -> None: ...

    def on_assignment(self, name: str, word: Word, node: SgNode) -> None: ...

    def on_lone_assignment(self, name: str, word: Word) -> None: ...

    def on_variable(self, name: str, node: SgNode) -> None: ...

    def on_redirect(self, redirect: Redirect, node: SgNode) -> None: ...

    def on_function(self, name: str, node: SgNode) -> None: ...

    def on_unparsed(self, node: SgNode) -> None: ...

    def on_split_word(self, line: int, text: str) -> None: ...

    def enter(self) -> bool:
        return True

    def leave(self) -> None: ...

    def _visit(self, node: SgNode, stdin: Stream | None) -> Stream:
        try:
            if not self.enter():
                return _NOTHING
            return self._visit_kind(node, stdin)
        finally:
            self.leave()

    def _visit_kind(self, node: SgNode, stdin: Stream | None) -> Stream:
        kind = node.kind()
        match kind:
            case "comment":
                return _NOTHING
            case "command":
                return self._command(node, [], stdin)
            case "redirected_statement":
                return self._redirected(node, stdin)
            case "pipeline":
                return self._pipeline(node, stdin)
            case "variable_assignment":
                self.on_lone_assignment(*self._assign(node))
                return _NOTHING
            case "declaration_command":
                return self._declaration(node)
            case "subshell" | "command_substitution" | "process_substitution":
                return self._apart(node, stdin)
            case "for_statement":
                return self._loop(node, stdin)
            case "function_definition":
                name = node.child(0)
                own = node.field("name") or name
                self.on_function(own.text() if own else "", node)
                return self._sequence(node, None)
            case "string" | "simple_expansion" | "expansion" | "concatenation":
                self._pieces(node)
                return _NOTHING
            case "ERROR":
                self.on_unparsed(node)
                return self._sequence(node, stdin)
            case _:
                return self._sequence(node, stdin)

    def _sequence(self, node: SgNode, stdin: Stream | None) -> Stream:
        children = node.children()
        self._check_gaps(node, children)
        streams = [self._visit(child, stdin) for child in children if child.is_named()]
        texts = [stream.text for stream in streams if stream is not _NOTHING]
        return Stream(
            text=texts[0] if len(texts) == 1 else None,
            sources=NOWHERE.union(*(stream.sources for stream in streams)),
        )

    def _apart(self, node: SgNode, stdin: Stream | None) -> Stream:
        directory, variables = self.directory, dict(self._variables)
        printed = self._sequence(node, stdin)
        self.directory, self._variables = directory, variables
        return printed

    def _pipeline(self, node: SgNode, stdin: Stream | None) -> Stream:
        given = stdin
        self._check_gaps(node, node.children())
        for child in node.children():
            if child.is_named() and child.kind() != "comment":
                given = self._visit(child, given)
        return given or _NOTHING

    def _loop(self, node: SgNode, stdin: Stream | None) -> Stream:
        variable = node.field("variable")
        if variable is not None:
            self._variables[variable.text()] = Piece(HOLE, HOLE)
        return self._sequence(node, stdin)

    def _assign(self, node: SgNode) -> tuple[str, Word]:
        name_node, value_node = node.field("name"), node.field("value")
        name = name_node.text() if name_node is not None else ""
        if name_node is not None and name_node.kind() == "subscript":
            self._sequence(name_node, None)
        # Of its value no words are made, whatever is in it.
        pieces = self._pieces(value_node) if value_node is not None else []
        text = "".join(piece.text for piece in pieces)
        sources = NOWHERE.union(*(piece.sources for piece in pieces))
        if any(child.text() == "+=" for child in node.children() if not child.is_named()):
            text = self._lookup(name).text + text
        word = Word(text=text, shape="".join(piece.shape for piece in pieces), sources=sources)
        self._variables[name] = Piece(text, HOLE, sources)
        self.on_assignment(name, word, node)
        return name, word

    def _declaration(self, node: SgNode) -> Stream:
        words: list[Word] = []
        self._check_gaps(node, node.children())
        for child in node.children():
            if child.kind() == "variable_assignment":
                name, word = self._assign(child)
                words.append(Word(text=f"{name}={word.text}", shape=f"{name}={word.shape}"))
            elif child.kind() in _WORDS:
                words += join(self._pieces(child))
            else:
                words.append(known(child.text()))
        return self._emit(node, words, [], [], None)

    def _redirected(self, node: SgNode, stdin: Stream | None) -> Stream:
        body = node.field("body")
        redirects = [child for child in node.children() if child.kind() in _REDIRECTS]
        self._check_gaps(node, node.children())
        if body is None or body.kind() == "command":
            return self._command(body or node, redirects, stdin)
        extra, stdin, after = self._redirects(redirects, stdin)
        if body.kind() == "pipeline" and extra[0]:
            self.on_unparsed(node)
        for redirect in extra[1]:
            self.on_redirect(redirect, node)
        printed = self._visit(body, stdin)
        return self._afterwards(after, printed)

    def _command(self, node: SgNode, redirect_nodes: list[SgNode], stdin: Stream | None) -> Stream:
        assignments: list[tuple[str, Word]] = []
        words: list[Word] = []
        own: list[SgNode] = []
        children = node.children() if node.kind() == "command" else []
        self._check_gaps(node, children)
        for child in children:
            kind = child.kind()
            if kind == "variable_assignment":
                assignments.append(self._assign(child))
            elif kind == "command_name":
                inner = child.children()
                words += join([piece for part in inner for piece in self._pieces(part)])
            elif kind in _REDIRECTS:
                own.append(child)
            elif kind in _WORDS:
                words += join(self._pieces(child))
            elif child.is_named() and kind != "comment":
                self._visit(child, None)
                words.append(UNKNOWN_WORD)
            elif kind not in ("$", "comment"):
                words.append(known(child.text()))
        (more, redirects), stdin, after = self._redirects([*own, *redirect_nodes], stdin)
        printed = self._emit(node, words + more, assignments, redirects, stdin)
        return self._afterwards(after, printed)

    def _emit(
        self,
        node: SgNode,
        words: list[Word],
        assignments: list[tuple[str, Word]],
        redirects: list[Redirect],
        stdin: Stream | None,
    ) -> Stream:
        command = Command(
            words=tuple(words),
            assignments=tuple(assignments),
            redirects=tuple(redirects),
            stdin=stdin,
            node=node,
            directory=self.directory,
        )
        self.on_command(command)
        if command.name == "cd":
            self._change_directory(command)
        if command.name in ("read", "mapfile", "readarray", "getopts", "unset"):
            for word in command.arguments:
                self._variables[word.text] = Piece(HOLE, HOLE)
        return output_of(command)

    def _change_directory(self, command: Command) -> None:
        target = next((text for text in command.texts if not text.startswith("-")), "~")
        self.directory = HOLE if HOLE in target else normalize(target, directory=self.directory)

    def _redirects(
        self, nodes: list[SgNode], stdin: Stream | None
    ) -> tuple[tuple[list[Word], list[Redirect]], Stream | None, list[SgNode]]:
        """Words that follow a redirect belong to its command, and commands that follow a heredoc come after it."""
        words: list[Word] = []
        redirects: list[Redirect] = []
        after: list[SgNode] = []
        for node in nodes:
            kind = node.kind()
            if kind == "heredoc_redirect":
                stdin = self._heredoc(node, words, redirects, after)
                continue
            operator, parts = "", []
            self._check_gaps(node, node.children())
            for child in node.children():
                if child.kind() in _WORDS:
                    parts += join(self._pieces(child))
                elif not child.is_named():
                    operator += child.text()
            if kind == "herestring_redirect":
                text = parts[0] if parts else known("")
                stdin = Stream(text=text.text if text.is_known else None, sources=text.sources)
                words += parts[1:]
                continue
            if parts:
                redirects.append(Redirect(operator=operator, target=parts[0]))
                words += parts[1:]
                if operator == "<":
                    stdin = Stream(sources=parts[0].sources)
        return (words, redirects), stdin, after

    def _heredoc(
        self, node: SgNode, words: list[Word], redirects: list[Redirect], after: list[SgNode]
    ) -> Stream:
        stream, is_literal = _NOTHING, False
        for child in node.children():
            kind = child.kind()
            if kind == "heredoc_start":
                is_literal = any(mark in child.text() for mark in "'\"\\")
            elif kind == "heredoc_body":
                pieces = [] if is_literal else self._pieces_between(child)
                text = child.text() if is_literal else "".join(piece.text for piece in pieces)
                sources = NOWHERE.union(*(piece.sources for piece in pieces))
                stream = Stream(text=None if HOLE in text else text, sources=sources)
            elif kind in _REDIRECTS:
                (more, others), _, later = self._redirects([child], None)
                words += more
                redirects += others
                after += later
            elif kind in _WORDS:
                words += join(self._pieces(child))
            elif child.is_named() and kind not in ("heredoc_end", "file_descriptor"):
                after.append(child)
        return stream

    def _afterwards(self, nodes: list[SgNode], printed: Stream) -> Stream:
        for node in nodes:
            is_piped = node.kind() == "pipeline"
            printed = self._pipeline(node, printed) if is_piped else self._visit(node, None)
        return printed

    def _pieces(self, node: SgNode) -> list[Piece]:
        try:
            if not self.enter():
                return [Piece(HOLE, HOLE)]
            return self._pieces_of(node)
        finally:
            self.leave()

    def _pieces_of(self, node: SgNode) -> list[Piece]:
        kind, text = node.kind(), node.text()
        match kind:
            case "word" | "number" | "variable_name" | "heredoc_content" | "file_descriptor":
                if kind == "word" and _NO_WORD.search(_ESCAPED.sub("", text)):
                    self.on_unparsed(node)
                plain = unescape_bare(text)
                # Outside quotes these stand for the names of files, or for several words.
                shape = HOLE if "{" in plain and "," in plain else _FILE_PATTERN.sub(HOLE, plain)
                return [Piece(plain, shape)]
            case "raw_string":
                return [Piece(text[1:-1], text[1:-1])]
            case "ansi_c_string":
                plain, sources = unescape_ansi(text[2:-1])
                return [Piece(plain, plain, sources)]
            case "string" | "translated_string":
                return [Piece("", ""), *self._quoted(node)]
            case "concatenation":
                pieces = [piece for child in node.children() for piece in self._pieces(child)]
                if any("{" in child.text() for child in node.children() if child.kind() in _BARE):
                    # It may become several words, whatever stands in it.
                    return [
                        Piece(piece.text, HOLE, piece.sources, piece.splits) for piece in pieces
                    ]
                return pieces
            case "simple_expansion" | "expansion":
                return self._variable(node, text)
            case "command_substitution":
                stream = self._visit(node, None)
                value = HOLE if stream.text is None else stream.text.rstrip("\n")
                sources = stream.sources if stream.text is None else stream.sources | {BUILT}
                return [Piece(value, HOLE, sources, splits=True)]
            case "process_substitution":
                return [Piece(HOLE, HOLE, self._visit(node, None).sources)]
            case "string_content":
                plain = unescape_double(text)
                return [Piece(plain, plain)]
            case "{" | "}" | "," | "[" | "]" | "*" | "?":
                return [Piece(text, HOLE)]
            case "brace_expression" | "extglob_pattern" | "regex" | "array":
                self._sequence(node, None)
                return [Piece(text if kind != "array" else HOLE, HOLE)]
            case "$":
                return []
            case _:
                self._sequence(node, None)
                return [Piece(HOLE, HOLE, splits=True)]

    def _quoted(self, node: SgNode) -> list[Piece]:
        pieces = self._pieces_between(node)
        return [Piece(piece.text, piece.shape, piece.sources) for piece in pieces]

    def _pieces_between(self, node: SgNode) -> list[Piece]:
        """The children of a quoted text, and what lies between them, which the grammar leaves out."""
        text, at = node.text(), 0
        pieces: list[Piece] = []
        for child in node.children():
            own = child.text()
            start = max(text.find(own, at), at)
            if start > at:
                plain = unescape_double(text[at:start])
                pieces.append(Piece(plain, plain))
            at = start + len(own)
            if child.kind() not in ('"', '$"'):
                pieces += self._pieces(child)
        if at < len(text):
            plain = unescape_double(text[at:])
            pieces.append(Piece(plain, plain))
        return pieces

    def _variable(self, node: SgNode, text: str) -> list[Piece]:
        # The grammar takes spaces before a variable in quotes for its own.
        before, dollar, rest = text.partition("$")
        lead = [Piece(before, before)] if before else []
        plain = _PLAIN_EXPANSION.match(dollar + rest)
        if plain:
            self.on_variable(plain[1], node)
            value = self._lookup(plain[1])
            return [*lead, Piece(value.text, HOLE, value.sources, splits=True)]
        name = next(
            (child.text() for child in node.children() if child.kind() == "variable_name"), ""
        )
        if name:
            self.on_variable(name, node)
        for child in node.children():
            if child.is_named() and child.kind() not in ("variable_name", "special_variable_name"):
                self._pieces(child)
        return [*lead, Piece(HOLE, HOLE, self._lookup(name).sources, splits=True)]

    def _lookup(self, name: str) -> Piece:
        if name in self._variables:
            return self._variables[name]
        value = {"HOME": "~", "PWD": self.directory, "TMPDIR": "/tmp", "IFS": " "}.get(name, HOLE)  # noqa: S108
        return Piece(value, HOLE)

    def _check_gaps(self, node: SgNode, children: list[SgNode]) -> None:
        """What the grammar passed over without a word is not understood, whatever it is."""
        text, at, was_word = node.text(), 0, False
        is_one_line = node.kind() in _ONE_LINE
        gap = _GAP_WITHIN if is_one_line else _GAP
        for number, child in enumerate(children):
            own, is_word = child.text(), child.kind() in _APART
            start = text.find(own, at)
            # Two words without a space between them are one to the shell, or not: `a=(b)c` sets a variable.
            is_glued = is_one_line and was_word and is_word and start == at
            if start < 0 or is_glued or (number and not gap.fullmatch(text, at, start)):
                self.on_unparsed(node)
                return
            at, was_word = start + len(own), is_word
