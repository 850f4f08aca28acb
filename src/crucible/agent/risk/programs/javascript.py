"""Reads JavaScript and TypeScript: imports and aliases followed, texts folded, calls handed to be judged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crucible.agent.risk.places import HOLE
from crucible.agent.risk.programs import javascript_names as names
from crucible.agent.risk.programs.calls import Calls
from crucible.agent.risk.programs.javascript_results import module_path, result_of
from crucible.agent.risk.programs.reading import ProgramReader
from crucible.agent.risk.programs.values import (
    BUILT,
    DECODED,
    UNKNOWN,
    Value,
    concatenated,
    joined_sources,
    text_value,
    unescape,
)
from crucible.agent.risk.report import Language

if TYPE_CHECKING:
    from ast_grep_py import SgNode

    from crucible.agent.risk.inspection import Inspection

_FUNCTIONS = frozenset(
    {
        *(
            "function_declaration",
            "function_expression",
            "generator_function_declaration",
            "arrow_function",
        ),
        *("generator_function", "method_definition"),
    }
)
_TRANSPARENT = frozenset(
    {
        *("parenthesized_expression", "await_expression", "as_expression", "non_null_expression"),
        *("satisfies_expression", "type_assertion", "spread_element", "computed_property_name"),
    }
)
_TYPES = frozenset(
    {
        *("type_annotation", "interface_declaration", "type_alias_declaration", "type_arguments"),
        *("type_parameters", "predefined_type", "comment", "hash_bang_line"),
    }
)


class JavaScriptReader(ProgramReader):
    def __init__(self, inspection: Inspection) -> None:
        super().__init__(inspection)
        self._calls = Calls(inspection, names.EFFECTS, Language.JAVASCRIPT)

    def value_of(self, kind: str, node: SgNode) -> Value:
        if kind in _TYPES:
            return UNKNOWN
        if kind in _FUNCTIONS:
            return self._function(node)
        if kind in _TRANSPARENT:
            inner = [child for child in node.named_children() if child.kind() != "comment"]
            first = inner[-1] if kind == "type_assertion" and inner else inner[0] if inner else None
            return self.visit(first) if first is not None else self.walk(node)
        method = getattr(self, f"_{kind}", None)
        return method(node) if method is not None else self.walk(node)

    # Names

    def _identifier(self, node: SgNode) -> Value:
        name = node.text()
        value = self.lookup(name)
        if value.path == name and name in names.CONSTANTS:
            return text_value(names.CONSTANTS[name])
        return value

    def _shorthand_property_identifier(self, node: SgNode) -> Value:
        return self.lookup(node.text())

    def _this(self, node: SgNode) -> Value:
        return Value(path="this")

    def _import_statement(self, node: SgNode) -> Value:
        source = node.field("source")
        path = module_path(self.visit(source).known_text or "") if source is not None else ""
        for clause in node.named_children():
            if clause.kind() == "import_clause":
                self._import_clause_of(clause, path)
        return UNKNOWN

    def _import_clause_of(self, clause: SgNode, path: str) -> None:
        for child in clause.named_children():
            match child.kind():
                case "identifier":
                    self.bind(child.text(), Value(path=path))
                case "namespace_import":
                    for name in child.named_children():
                        self.bind(name.text(), Value(path=path))
                case "named_imports":
                    for specifier in child.named_children():
                        self._bind_import(specifier, path)

    def _bind_import(self, specifier: SgNode, path: str) -> None:
        name, alias = specifier.field("name"), specifier.field("alias")
        if name is not None:
            own = name.text()
            value = (
                Value(path=path) if own in ("default", "promises") else Value(path=f"{path}.{own}")
            )
            self.bind((alias or name).text(), value)

    def _variable_declarator(self, node: SgNode) -> Value:
        name, value = node.field("name"), node.field("value")
        worth = self.visit(value) if value is not None else UNKNOWN
        if name is not None:
            self._bind_target(name, worth)
        return UNKNOWN

    def _assignment_expression(self, node: SgNode) -> Value:
        left, right = node.field("left"), node.field("right")
        if left is None or right is None:
            return self.walk(node)
        value = self.visit(right)
        self._bind_target(left, value)
        return value

    def _augmented_assignment_expression(self, node: SgNode) -> Value:
        left, right = node.field("left"), node.field("right")
        if left is None or right is None:
            return self.walk(node)
        value = concatenated([self.visit(left), self.visit(right)])
        self._bind_target(left, value)
        return value

    def _for_in_statement(self, node: SgNode) -> Value:
        left, right = node.field("left"), node.field("right")
        value = self.visit(right) if right is not None else UNKNOWN
        if left is not None:
            self._bind_target(left, Value(sources=value.sources))
        body = node.field("body")
        return self.visit(body) if body is not None else UNKNOWN

    def _function(self, node: SgNode) -> Value:
        name = node.field("name")
        if name is not None and node.kind().endswith("declaration"):
            self.bind(name.text(), UNKNOWN)
        parameters = node.field("parameters") or node.field("parameter")
        self.scoped(node, _parameters(parameters))
        return UNKNOWN

    def _class_declaration(self, node: SgNode) -> Value:
        name = node.field("name")
        if name is not None:
            self.bind(name.text(), UNKNOWN)
        return self.walk(node)

    def _bind_target(self, target: SgNode, value: Value) -> None:
        match target.kind():
            case "identifier" | "shorthand_property_identifier_pattern":
                name = target.text()
                self.bind(name, value)
            case "object_pattern":
                for child in target.named_children():
                    self._bind_member(child, value)
            case "array_pattern":
                items = value.items or ()
                for number, child in enumerate(target.named_children()):
                    self._bind_target(child, items[number] if number < len(items) else UNKNOWN)
            case "assignment_pattern" | "object_assignment_pattern" | "rest_pattern":
                inner = target.named_children()
                if inner:
                    self._bind_target(inner[0], UNKNOWN)
                for child in inner[1:]:
                    self.visit(child)
            case _:
                self.visit(target)

    def _bind_member(self, child: SgNode, value: Value) -> None:
        if child.kind() == "shorthand_property_identifier_pattern":
            self.bind(child.text(), self._member(child, value, child.text()))
        elif child.kind() == "pair_pattern":
            key, target = child.field("key"), child.field("value")
            if key is not None and target is not None:
                name = key.text() if key.kind() == "property_identifier" else self.visit(key).text
                self._bind_target(target, self._member(child, value, name) if name else UNKNOWN)
        else:
            self._bind_target(child, UNKNOWN)

    # Expressions

    def _member_expression(self, node: SgNode) -> Value:
        holder, name = node.field("object"), node.field("property")
        if holder is None or name is None:
            return self.walk(node)
        value = self._member(node, self.visit(holder), name.text())
        if value.path == "document.cookie" and not _is_assigned(node):
            self._inspection.find("credential-variable", node)
        return value

    def _member(self, node: SgNode, holder: Value, name: str) -> Value:
        if holder.path in names.GLOBALS:
            return self._identifier_by_name(name)
        if holder.path == "process.env":
            self._calls.environment(node, name)
            return text_value("~") if name == "HOME" else UNKNOWN
        if name in ("promises", "default") and holder.path:
            return holder
        value = holder.member(name)
        return text_value(names.CONSTANTS[value.path]) if value.path in names.CONSTANTS else value

    def _identifier_by_name(self, name: str) -> Value:
        return self._scopes[0].get(name, Value(path=name))

    def _subscript_expression(self, node: SgNode) -> Value:
        holder_node, index_node = node.field("object"), node.field("index")
        if holder_node is None or index_node is None:
            return self.walk(node)
        holder, index = self.visit(holder_node), self.visit(index_node)
        if holder.items is not None and index.number is not None:
            return holder.items[index.number] if 0 <= index.number < len(holder.items) else UNKNOWN
        name = index.known_text
        is_hidden = bool(index.sources & {BUILT, DECODED})
        root = holder.path.partition(".")[0].partition("(")[0]
        if name is None:
            if holder.path in names.POWERFUL or (holder.path in names.GLOBALS and is_hidden):
                self._inspection.find("unknown-member", node)
            return Value(sources=holder.sources)
        if (holder.path in names.GLOBALS and (is_hidden or name in names.HIDEABLE)) or (
            is_hidden and root in names.POWERFUL
        ):
            self._inspection.find("hidden-name", node)
        return self._member(node, holder, name)

    def _sequence_expression(self, node: SgNode) -> Value:
        values = [self.visit(child) for child in node.named_children()]
        return values[-1] if values else UNKNOWN

    def _call_expression(self, node: SgNode) -> Value:
        function, arguments_node = node.field("function"), node.field("arguments")
        if function is None or arguments_node is None:
            return self.walk(node)
        callee = Value(path="import") if function.kind() == "import" else self.visit(function)
        if arguments_node.kind() == "template_string":
            arguments = [self.visit(arguments_node)]
        else:
            arguments = self._arguments(arguments_node)
        return self._called(node, callee, arguments)

    def _new_expression(self, node: SgNode) -> Value:
        constructor, arguments_node = node.field("constructor"), node.field("arguments")
        callee = self.visit(constructor) if constructor is not None else UNKNOWN
        arguments = self._arguments(arguments_node) if arguments_node is not None else []
        return self._called(node, callee, arguments)

    def _called(self, node: SgNode, callee: Value, arguments: list[Value]) -> Value:
        path = callee.path
        last = path.rpartition(".")[2]
        first = arguments[0] if arguments else UNKNOWN
        if path in ("require", "import") or path.endswith((".require", "createRequire()")):
            return self._require(node, path, first)
        if path == "Function" or (last == "constructor" and first.text is not None):
            if last == "constructor":
                self._inspection.find("object-escape", node)
            self._calls.code(node, arguments[-1] if arguments else UNKNOWN)
            return UNKNOWN
        if path in names.TIMERS and (first.text is not None or first.sources & {BUILT, DECODED}):
            self._calls.code(node, first)
        if path == "process.kill" and first.number in (-1, 0, 1):
            self._inspection.find("kill-all", node)
        if (
            last in ("call", "apply", "bind")
            and callee.holder is not None
            and callee.holder.path in names.EFFECTS
        ):
            rest = (
                arguments[1:]
                if last != "apply"
                else list((arguments[1].items or ()) if arguments[1:] else ())
            )
            return self._called(node, callee.holder, rest) if last != "bind" else callee.holder
        effect = self._calls.effect(path)
        if effect:
            self._calls.judge(effect, node, callee, arguments, {})
        if any(value.path in ("eval", "Function") for value in arguments) and effect != "show":
            self._inspection.find("dynamic-code", node)
        return result_of(callee, effect, arguments)

    def _arguments(self, node: SgNode) -> list[Value]:
        return [self.visit(child) for child in node.named_children() if child.kind() != "comment"]

    def _require(self, node: SgNode, path: str, name: Value) -> Value:
        module = name.known_text
        is_roundabout = (
            path not in ("require", "import") and module_path(module or "") in names.POWERFUL
        )
        if name.sources & {BUILT, DECODED} or is_roundabout:
            self._inspection.find("hidden-import", node)
        if module and module.startswith(("http://", "https://", "data:")):
            if not module.startswith("data:"):
                self._inspection.find("network-call", node)
            self._inspection.find("fetched-code", node)
        return Value(path=module_path(module)) if module else UNKNOWN

    # Literals

    def _string(self, node: SgNode) -> Value:
        text = node.text()[1:-1]
        plain, is_coded = unescape(text)
        return text_value(plain, frozenset({DECODED}) if is_coded else frozenset())

    def _template_string(self, node: SgNode) -> Value:
        parts: list[Value] = []
        for child in node.children():
            kind = child.kind()
            if kind == "string_fragment" or kind == "escape_sequence":
                parts.append(text_value(unescape(child.text())[0]))
            elif kind == "template_substitution":
                inner = child.named_children()
                value = self.visit(inner[0]) if inner else UNKNOWN
                is_text = value.text is not None or value.number is not None
                parts.append(value if is_text else Value(text=HOLE, sources=value.sources))
            elif kind == "ERROR":
                self.visit(child)
        if all(part.text is not None for part in parts) and len(parts) <= 1:
            return parts[0] if parts else text_value("")
        return concatenated(parts)

    def _number(self, node: SgNode) -> Value:
        text = node.text().replace("_", "").rstrip("n")
        try:
            return Value(number=int(text, 0)) if len(text) < 20 else UNKNOWN
        except ValueError:
            return UNKNOWN

    def _unary_expression(self, node: SgNode) -> Value:
        operand = node.field("argument")
        value = self.visit(operand) if operand is not None else UNKNOWN
        if value.number is not None and node.text().startswith("-"):
            return Value(number=-value.number)
        return Value(sources=value.sources)

    def _array(self, node: SgNode) -> Value:
        values = [self.visit(child) for child in node.named_children()]
        return Value(items=tuple(values), sources=joined_sources(values))

    def _object(self, node: SgNode) -> Value:
        values = []
        for child in node.named_children():
            value = child.field("value") if child.kind() == "pair" else None
            if value is not None:
                key = child.field("key")
                if key is not None and key.kind() == "computed_property_name":
                    self.visit(key)
                values.append(self.visit(value))
            else:
                values.append(self.visit(child))
        return Value(sources=joined_sources(values))

    def _binary_expression(self, node: SgNode) -> Value:
        left, right, operator = node.field("left"), node.field("right"), node.field("operator")
        if left is None or right is None or operator is None:
            return self.walk(node)
        first, second = self.visit(left), self.visit(right)
        if operator.text() == "+" and (first.text is not None or second.text is not None):
            return concatenated([first, second])
        if operator.text() in ("||", "??") and (first.path or first.text is not None):
            return first
        return Value(sources=first.sources | second.sources)


def _is_assigned(node: SgNode) -> bool:
    parent = node.parent()
    if parent is None or parent.kind() != "assignment_expression":
        return False
    left = parent.field("left")
    return left is not None and left.range() == node.range()


def _parameters(node: SgNode | None) -> list[str]:
    if node is None:
        return []
    if node.kind() == "identifier":
        return [node.text()]
    kinds = ("identifier", "shorthand_property_identifier_pattern")
    return [found.text() for kind in kinds for found in node.find_all(kind=kind)]
