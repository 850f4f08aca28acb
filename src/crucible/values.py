"""Classes of named values, declared as with `dataclasses` but made without generating code.

`dataclasses` compiles half a dozen functions for each class, which takes longer than all else when a module is
loaded. What is on the way of a `run` before its machine starts is declared with this. The functions of
`dataclasses` (`asdict`, `replace`, `fields`) work on these classes, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

if TYPE_CHECKING:
    import dataclasses

T = TypeVar("T")


class _Factory:
    __slots__ = ("make",)

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def field(*, default_factory: Callable[[], Any]) -> Any:
    """A default that is made anew for each object."""
    return _Factory(default_factory)


@dataclass_transform(kw_only_default=True, field_specifiers=(field,))
def dataclass(*, slots: bool, kw_only: bool, frozen: bool = False) -> Callable[[type[T]], type[T]]:
    """Only what is used here: slots, arguments by keyword, and no base that has fields itself."""
    if not (slots and kw_only):
        raise TypeError("these classes have slots and take their arguments by keyword")

    def declare(plain: type[T]) -> type[T]:
        # `inspect` would know a better way, and take longer to load than all this saves.
        names = tuple(plain.__dict__.get("__annotations__", ()))  # noqa: RUF063
        defaults = {name: plain.__dict__[name] for name in names if name in plain.__dict__}
        unwanted = {*defaults, "__dict__", "__weakref__"}
        body = {name: value for name, value in plain.__dict__.items() if name not in unwanted}
        body |= {
            "__qualname__": plain.__qualname__,
            "__slots__": names,
            "__init__": _initializer(plain.__name__, names, defaults),
            "__dataclass_fields__": _Fields(names, defaults),
            "__getstate__": _get_state,
            "__setstate__": _set_state,
        }
        body.setdefault("__eq__", _equals)
        body.setdefault("__repr__", _represent)
        if frozen:
            body |= {"__setattr__": _refuse, "__delattr__": _refuse}
        if "__hash__" not in plain.__dict__:
            body["__hash__"] = _hash if frozen else None
        made: type[T] = type(plain)(plain.__name__, plain.__bases__, body)  # type: ignore[misc]
        return made

    return declare


def asdict(value: Any) -> dict[str, Any]:
    """The fields of one object. What they hold is given as it is, unlike by `dataclasses.asdict`."""
    return {name: getattr(value, name) for name in value.__slots__}


def replace(value: T, **changes: Any) -> T:
    return type(value)(**{**asdict(value), **changes})


def _initializer(
    owner: str, names: tuple[str, ...], defaults: dict[str, Any]
) -> Callable[..., None]:
    def initialize(self: Any, **given: Any) -> None:
        for name in names:
            if name in given:
                _set(self, name, given.pop(name))
            elif name in defaults:
                default = defaults[name]
                _set(self, name, default.make() if type(default) is _Factory else default)
            else:
                raise TypeError(f"{owner} needs {name!r}")
        if given:
            raise TypeError(f"{owner} has no {', '.join(map(repr, given))}")
        if hasattr(self, "__post_init__"):
            self.__post_init__()

    return initialize


_set = object.__setattr__


def _values(value: Any) -> tuple[Any, ...]:
    return tuple(getattr(value, name) for name in value.__slots__)


def _equals(self: Any, other: object) -> Any:
    return _values(self) == _values(other) if other.__class__ is self.__class__ else NotImplemented


def _hash(self: Any) -> int:
    return hash(_values(self))


def _represent(self: Any) -> str:
    shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__slots__)
    return f"{self.__class__.__qualname__}({shown})"


def _refuse(self: Any, name: str, *_: Any) -> None:
    # Who asks is told in the words that everybody knows; by then time does not matter.
    from dataclasses import FrozenInstanceError

    raise FrozenInstanceError(f"cannot change field {name!r}")


def _get_state(self: Any) -> list[Any]:
    return list(_values(self))


def _set_state(self: Any, state: list[Any]) -> None:
    for name, value in zip(self.__slots__, state, strict=True):
        _set(self, name, value)


class _Fields:
    """By what `dataclasses` knows a class of its own; made when somebody looks."""

    __slots__ = ("_defaults", "_names")

    def __init__(self, names: tuple[str, ...], defaults: dict[str, Any]) -> None:
        self._names = names
        self._defaults = defaults

    def __get__(self, value: object, owner: type) -> dict[str, dataclasses.Field[Any]]:
        import dataclasses

        def described(name: str) -> Any:
            default = self._defaults.get(name, dataclasses.MISSING)
            if type(default) is _Factory:
                return dataclasses.field(default_factory=default.make)
            return dataclasses.field(default=default)

        twin: Any = dataclasses.make_dataclass(
            owner.__name__,
            [(name, owner.__annotations__[name], described(name)) for name in self._names],
            kw_only=True,
        )
        found: dict[str, dataclasses.Field[Any]] = twin.__dataclass_fields__
        return found
