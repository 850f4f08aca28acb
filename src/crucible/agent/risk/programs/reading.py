"""What reading a program is in any language: scopes of names, a walk over the tree with limits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crucible.agent.risk.programs.values import UNKNOWN, Value, joined_sources

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from crucible.agent.risk.inspection import Inspection


class ProgramReader:
    """A subclass says what a kind of node is worth; all others are walked through."""

    def __init__(self, inspection: Inspection) -> None:
        self._inspection = inspection
        self._scopes: list[dict[str, Value]] = [{}]

    def read(self, root: SgNode) -> None:
        self.visit(root)
        self.finish()

    def finish(self) -> None:
        """After the last node."""

    def visit(self, node: SgNode) -> Value:
        self._inspection.step()
        try:
            if not self._inspection.enter():
                return UNKNOWN
            return self.value_of(node.kind(), node)
        finally:
            self._inspection.leave()

    def value_of(self, kind: str, node: SgNode) -> Value:
        raise NotImplementedError

    def walk(self, node: SgNode) -> Value:
        """Visits all there is below; what comes of it keeps where its parts came from."""
        values = [self.visit(child) for child in node.named_children()]
        sources = joined_sources(values)
        return Value(sources=sources) if sources else UNKNOWN

    def scoped(self, node: SgNode, names: list[str]) -> None:
        """Walks a function's body, in which its parameters are not what they are outside."""
        self._scopes.append(dict.fromkeys(names, UNKNOWN))
        self.walk(node)
        self._scopes.pop()

    def bind(self, name: str, value: Value) -> None:
        self._scopes[-1][name] = value

    def lookup(self, name: str) -> Value:
        for scope in reversed(self._scopes):
            if name in scope:
                return scope[name]
        return Value(path=name)
