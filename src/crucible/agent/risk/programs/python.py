"""Reads Python: imports and aliases followed, texts folded, calls handed to be judged."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from crucible.agent.risk.places import HOLE
from crucible.agent.risk.programs import python_names as names
from crucible.agent.risk.programs.calls import Calls
from crucible.agent.risk.programs.python_results import result_of
from crucible.agent.risk.programs.reading import ProgramReader
from crucible.agent.risk.programs.values import (
    BUILT,
    DECODED,
    UNKNOWN,
    Value,
    concatenated,
    joined_path,
    joined_sources,
    reversed_value,
    text_value,
    unescape,
)
from crucible.agent.risk.report import Language

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from crucible.agent.risk.inspection import Inspection

_HIDEABLE = frozenset({"eval", "exec", "compile", "__import__", "__builtins__", "open", "getattr"})
_NAMESPACES = frozenset(
    {"globals()", "locals()", "vars()", "__builtins__", "__dict__", "sys.modules"}
)
_QUOTES = re.compile(r"[\"']")


class PythonReader(ProgramReader):
    def __init__(self, inspection: Inspection) -> None:
        super().__init__(inspection)
        self._calls = Calls(inspection, names.EFFECTS, Language.PYTHON)
        self._while_loops = 0
        self._swap: SgNode | None = None

    def finish(self) -> None:
        if self._swap is not None and self._inspection.has_found("network-call"):
            self._inspection.find("reverse-shell", self._swap)

    def value_of(self, kind: str, node: SgNode) -> Value:
        method = getattr(self, f"_{kind}", None)
        return method(node) if method is not None else self.walk(node)

    # Names

    def _comment(self, node: SgNode) -> Value:
        return UNKNOWN

    def _identifier(self, node: SgNode) -> Value:
        return self.lookup(_plain_name(node.text()))

    def _import_statement(self, node: SgNode) -> Value:
        for child in node.field_children("name"):
            module, alias = _imported(child)
            if alias:
                self.bind(alias, Value(path=_canonical(module)))
            else:
                root = module.partition(".")[0]
                self.bind(root, Value(path=_canonical(root)))
        return UNKNOWN

    def _import_from_statement(self, node: SgNode) -> Value:
        source = node.field("module_name")
        module = source.text() if source is not None else ""
        for child in node.field_children("name"):
            name, alias = _imported(child)
            self.bind(alias or name, Value(path=_canonical(f"{module}.{name}")))
        if any(child.kind() == "wildcard_import" for child in node.children()):
            for path in names.EFFECTS:
                head, _, last = path.rpartition(".")
                if head == module:
                    self.bind(last, Value(path=path))
        return UNKNOWN

    def _function_definition(self, node: SgNode) -> Value:
        name = node.field("name")
        if name is not None:
            self.bind(name.text(), UNKNOWN)
        self.scoped(node, _parameters(node.field("parameters")))
        return UNKNOWN

    def _lambda(self, node: SgNode) -> Value:
        self.scoped(node, _parameters(node.field("parameters")))
        return UNKNOWN

    def _class_definition(self, node: SgNode) -> Value:
        self.scoped(node, [])
        name = node.field("name")
        if name is not None:
            self.bind(name.text(), UNKNOWN)
        return UNKNOWN

    def _assignment(self, node: SgNode) -> Value:
        left, right = node.field("left"), node.field("right")
        value = self.visit(right) if right is not None else UNKNOWN
        if left is not None and right is not None:
            self._bind_target(left, value)
        return value

    def _augmented_assignment(self, node: SgNode) -> Value:
        left, right = node.field("left"), node.field("right")
        if left is None or right is None:
            return self.walk(node)
        value = concatenated([self.visit(left), self.visit(right)])
        self._bind_target(left, value)
        return value

    def _named_expression(self, node: SgNode) -> Value:
        name, value = node.field("name"), node.field("value")
        if name is None or value is None:
            return self.walk(node)
        worth = self.visit(value)
        self._bind_target(name, worth)
        return worth

    def _as_pattern(self, node: SgNode) -> Value:
        first, *rest = node.named_children()
        value = self.visit(first)
        for child in rest:
            target = child.child(0) if child.kind() == "as_pattern_target" else child
            if target is not None:
                self._bind_target(target, value)
        return value

    def _for_statement(self, node: SgNode) -> Value:
        left, right = node.field("left"), node.field("right")
        if left is not None and right is not None:
            self._bind_target(left, _one_of(self.visit(right)))
        for child in node.named_children():
            if child.kind() in ("block", "else_clause"):
                self.visit(child)
        return UNKNOWN

    def _for_in_clause(self, node: SgNode) -> Value:
        left, right = node.field("left"), node.field("right")
        value = self.visit(right) if right is not None else UNKNOWN
        if left is not None:
            self._bind_target(left, _one_of(value))
        return Value(sources=value.sources)

    def _generator_expression(self, node: SgNode) -> Value:
        """The loop first: what is made of its variable stands before it."""
        self._scopes.append({})
        children = node.named_children()
        values = [self.visit(child) for child in (*children[1:], *children[:1])]
        self._scopes.pop()
        return Value(sources=joined_sources(values))

    _list_comprehension = _set_comprehension = _dictionary_comprehension = _generator_expression

    def _while_statement(self, node: SgNode) -> Value:
        self._while_loops += 1
        self.walk(node)
        self._while_loops -= 1
        return UNKNOWN

    def _bind_target(self, target: SgNode, value: Value) -> None:
        kind = target.kind()
        if kind == "identifier":
            self.bind(target.text(), value)
        elif kind in ("pattern_list", "tuple_pattern", "list_pattern", "expression_list", "tuple"):
            parts = target.named_children()
            items = value.items or ()
            for number, part in enumerate(parts):
                known = items[number] if len(items) == len(parts) else None
                spread = (
                    Value(text=value.text, sources=value.sources)
                    if value.items is None
                    else UNKNOWN
                )
                self._bind_target(part, known or spread)
        else:
            self.visit(target)

    # Expressions

    def _attribute(self, node: SgNode) -> Value:
        holder, name = node.field("object"), node.field("attribute")
        if holder is None or name is None:
            return self.walk(node)
        return self._member(node, self.visit(holder), _plain_name(name.text()))

    def _member(self, node: SgNode, holder: Value, name: str) -> Value:
        value = holder.member(name)
        path = _canonical(value.path)
        if name in names.ESCAPES and (
            "__" in holder.path or name in ("__globals__", "__builtins__")
        ):
            self._inspection.find("object-escape", node)
        if path in names.CONSTANTS:
            return text_value(names.CONSTANTS[path])
        if holder.path == "pathlib.Path()" and name in ("parent", "parents"):
            return Value(path="pathlib.Path()", text=f"{holder.text}/.." if holder.text else None)
        return (
            value if path == value.path else Value(path=path, sources=value.sources, holder=holder)
        )

    def _subscript(self, node: SgNode) -> Value:
        first, *indexes = [child for child in node.named_children() if child.kind() != "comment"]
        holder = self.visit(first)
        if len(indexes) != 1:
            for other in indexes:
                self.visit(other)
            return Value(sources=holder.sources)
        if indexes[0].kind() == "slice":
            is_reversed = indexes[0].text().replace(" ", "") == "::-1"
            self.visit(indexes[0])
            return reversed_value(holder) if is_reversed else Value(sources=holder.sources)
        index = self.visit(indexes[0])
        if holder.path in ("os.environ", "os.environb"):
            self._calls.environment(node, index.known_text)
            return text_value("~") if index.known_text == "HOME" else UNKNOWN
        if holder.items is not None and index.number is not None:
            inside = -len(holder.items) <= index.number < len(holder.items)
            return holder.items[index.number] if inside else UNKNOWN
        if holder.path.rpartition(".")[2] in _NAMESPACES or holder.path in _NAMESPACES:
            return self._by_name(node, holder, index)
        return Value(path=f"{holder.path}[]" if holder.path else "", sources=holder.sources)

    def _by_name(self, node: SgNode, holder: Value, index: Value) -> Value:
        """A name that is reached by its text, in a table of names."""
        name = index.known_text
        if name is None:
            if index.sources & {BUILT, DECODED} or "__" in holder.path:
                self._inspection.find("hidden-name", node)
            return UNKNOWN
        if index.sources & {BUILT, DECODED} or name in _HIDEABLE:
            self._inspection.find("hidden-name", node)
        if holder.path == "globals()" and name in self._scopes[0]:
            return self._scopes[0][name]
        is_module = holder.path.endswith(".__dict__") and "__builtins__" not in holder.path
        outer = holder.path.removesuffix(".__dict__") if is_module else ""
        return Value(path=_canonical(f"{outer}.{name}" if outer else name))

    def _call(self, node: SgNode) -> Value:
        function, arguments_node = node.field("function"), node.field("arguments")
        if function is None or arguments_node is None:
            return self.walk(node)
        callee = self.visit(function)
        arguments, named = self._arguments(arguments_node)
        path = callee.path
        match path:
            case "getattr" | "operator.attrgetter":
                return self._getattr(node, arguments)
            case "__import__" | "importlib.import_module" | "importlib.__import__":
                return self._import(node, path, arguments)
            case "os.fork" | "os.forkpty" if self._while_loops:
                self._inspection.find("fork-loop", node)
            case "os.dup2":
                self._swap = node
            case "os.kill" | "os.killpg" if arguments and arguments[0].number in (-1, 0, 1):
                self._inspection.find("kill-all", node)
            case "os.getenv" | "os.environ.get" | "os.environ.pop" if arguments:
                self._calls.environment(node, arguments[0].known_text)
        effect = self._calls.effect(path)
        if effect:
            self._calls.judge(effect, node, callee, arguments, named)
        for value in arguments:
            if value.path in ("eval", "exec") and effect != "show":
                self._inspection.find("dynamic-code", node)
        return result_of(callee, effect, arguments, named)

    def _arguments(self, node: SgNode) -> tuple[list[Value], dict[str, Value]]:
        if node.kind() != "argument_list":
            return [self.visit(node)], {}
        positional: list[Value] = []
        named: dict[str, Value] = {}
        for child in node.named_children():
            kind = child.kind()
            if kind == "keyword_argument":
                name, value = child.field("name"), child.field("value")
                if name is not None and value is not None:
                    named[name.text()] = self.visit(value)
            elif kind == "list_splat":
                spread = (
                    self.visit(child.named_children()[0]) if child.named_children() else UNKNOWN
                )
                positional += spread.items or [spread]
            elif kind != "comment":
                positional.append(self.visit(child))
        return positional, named

    def _getattr(self, node: SgNode, arguments: list[Value]) -> Value:
        if len(arguments) < 2:
            return UNKNOWN
        holder, name = arguments[0], arguments[1]
        root = holder.path.partition(".")[0].partition("(")[0]
        is_powerful = root in names.POWERFUL
        if name.known_text is None:
            if is_powerful:
                self._inspection.find("unknown-member", node)
            return UNKNOWN
        if name.sources & {BUILT, DECODED} and (is_powerful or name.known_text.startswith("__")):
            self._inspection.find("hidden-name", node)
        return self._member(node, holder, name.known_text)

    def _import(self, node: SgNode, path: str, arguments: list[Value]) -> Value:
        name = arguments[0] if arguments else UNKNOWN
        module = name.known_text
        is_hidden = bool(name.sources & {BUILT, DECODED})
        if is_hidden:
            self._inspection.find("hidden-name", node)
        elif path == "__import__" and (
            module is None or module.partition(".")[0] in names.POWERFUL
        ):
            self._inspection.find("hidden-import", node)
        return Value(path=_canonical(module)) if module else UNKNOWN

    def _exec_statement(self, node: SgNode) -> Value:
        code = node.named_children()
        if code:
            self._calls.code(node, self.visit(code[0]))
        return UNKNOWN

    # Literals

    def _string(self, node: SgNode) -> Value:
        parts: list[Value] = []
        is_raw, is_formatted, coded = False, False, False
        for child in node.children():
            kind = child.kind()
            if kind == "string_start":
                prefix = _QUOTES.split(child.text())[0].lower()
                is_raw, is_formatted = "r" in prefix, "f" in prefix or "t" in prefix
            elif kind == "string_content":
                text = child.text()
                plain, has_code = (text, False) if is_raw else unescape(text)
                coded = coded or has_code
                parts.append(
                    text_value(
                        plain.replace("{{", "{").replace("}}", "}") if is_formatted else plain
                    )
                )
            elif kind == "interpolation":
                inner = child.field("expression")
                value = self.visit(inner) if inner is not None else self.walk(child)
                parts.append(
                    value
                    if value.text is not None or value.number is not None
                    else Value(text=HOLE, sources=value.sources)
                )
            elif kind == "ERROR":
                self.visit(child)
        if len(parts) == 1 and not is_formatted:
            return parts[0].from_(DECODED) if coded else parts[0]
        if not parts:
            return text_value("")
        return concatenated(parts)

    def _concatenated_string(self, node: SgNode) -> Value:
        parts = [self.visit(child) for child in node.named_children()]
        value = concatenated(parts)
        return Value(text=value.text, sources=joined_sources(parts))

    def _integer(self, node: SgNode) -> Value:
        return _number(node.text())

    def _unary_operator(self, node: SgNode) -> Value:
        operand = node.field("argument")
        value = self.visit(operand) if operand is not None else UNKNOWN
        if value.number is not None and node.text().startswith("-"):
            return Value(number=-value.number)
        return Value(sources=value.sources)

    def _true(self, node: SgNode) -> Value:
        return Value(path="True", number=1)

    def _false(self, node: SgNode) -> Value:
        return Value(path="False", number=0)

    def _list(self, node: SgNode) -> Value:
        values = [self.visit(child) for child in node.named_children()]
        return Value(items=tuple(values), sources=joined_sources(values))

    _tuple = _set = _expression_list = _list

    def _parenthesized_expression(self, node: SgNode) -> Value:
        inner = [child for child in node.named_children() if child.kind() != "comment"]
        return self.visit(inner[0]) if len(inner) == 1 else self.walk(node)

    def _await(self, node: SgNode) -> Value:
        return self._parenthesized_expression(node)

    def _binary_operator(self, node: SgNode) -> Value:
        left, right, operator = node.field("left"), node.field("right"), node.field("operator")
        if left is None or right is None or operator is None:
            return self.walk(node)
        first, second = self.visit(left), self.visit(right)
        match operator.text():
            case "+" if first.text is not None or second.text is not None:
                return concatenated([first, second])
            case "+" if first.items is not None and second.items is not None:
                return Value(
                    items=first.items + second.items, sources=first.sources | second.sources
                )
            case "/" if first.path == "pathlib.Path()":
                joined = joined_path([first, second])
                return Value(path="pathlib.Path()", text=joined.text, sources=joined.sources)
            case "%" if first.text is not None:
                return text_value(
                    re.sub(r"%[-+ #0-9.]*[a-z]", HOLE, first.text), first.sources | second.sources
                )
        return Value(sources=first.sources | second.sources)


def _imported(node: SgNode) -> tuple[str, str]:
    if node.kind() != "aliased_import":
        return node.text(), ""
    name, alias = node.field("name"), node.field("alias")
    return (name.text() if name is not None else ""), (alias.text() if alias is not None else "")


def _parameters(node: SgNode | None) -> list[str]:
    if node is None:
        return []
    found = []
    for child in node.named_children():
        name = child if child.kind() == "identifier" else child.field("name") or child.child(0)
        if name is not None and name.kind() == "identifier":
            found.append(name.text())
    return found


def _plain_name(name: str) -> str:
    """As Python reads it: letters that only look different are the same."""
    return name if name.isascii() else unicodedata.normalize("NFKC", name)


def _canonical(path: str) -> str:
    for prefix, better in names.CANONICAL.items():
        if path.startswith(prefix):
            return better + path[len(prefix) :]
    return path


def _one_of(value: Value) -> Value:
    """What a loop over it yields."""
    if value.path in (
        "os.walk()",
        "os.scandir()",
        "pathlib.Path().rglob()",
        "pathlib.Path().glob()",
    ):
        return Value(text=f"{value.text}/{HOLE}" if value.text else None)
    return Value(path=f"{value.path}[]" if value.path else "", sources=value.sources)


def _number(text: str) -> Value:
    try:
        # A number of many digits takes quadratic time, and is no mode and no position.
        return Value(number=int(text.replace("_", ""), 0)) if len(text) < 20 else UNKNOWN
    except ValueError:
        return UNKNOWN
