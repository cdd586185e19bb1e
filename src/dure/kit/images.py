"""An image of living objects as plain JSON, and back: who refers to whom stays as it was.

A machine that has run for days can so be started again elsewhere, to the letter. Unlike a pickle an
image runs nothing when it is read: it names classes, of the packages that its reader allows, and
the values of their fields.
"""

import base64
import dataclasses
import importlib
import types
from collections import deque
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any

import numpy as np

_PLAIN = (bool, int, float, str)
_SIMPLE: dict[type, str] = {tuple: "tuple", list: "list", set: "set", frozenset: "frozenset"}
_REFERENCE = 1
"""Length of a reference: the number of its node, alone in a list."""


class ImageError(ValueError):
    """An image cannot be made of something, or does not fit the code that reads it."""


def image_of(value: object) -> list[Any]:
    """The nodes of an image; the first is the value itself."""
    writer = _Writer()
    writer.word((value,))
    return writer.nodes


def value_of(image: object, packages: tuple[str, ...]) -> Any:
    """The value of an image whose classes all come from these packages."""
    if not isinstance(image, list) or not image:
        raise ImageError("there are no nodes")
    try:
        return _Reader(image, packages).node(0)[0]
    except (TypeError, ValueError, IndexError, AttributeError, RecursionError) as error:
        raise ImageError(str(error)) from error


class _Writer:
    """Numbers objects in the order in which they are met."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._kept: list[object] = []
        """So that no other object gets the identity of one that was met."""

    def word(self, value: Any) -> Any:
        """A plain value as it is, everything else as a reference to its node."""
        if value is None or type(value) in _PLAIN:
            return value
        number = self._numbers.get(id(value))
        if number is None:
            number = self._numbers[id(value)] = len(self.nodes)
            self._kept.append(value)
            self.nodes.append(None)
            self.nodes[number] = self._node(value)
        return [number]

    def _node(self, value: Any) -> list[Any]:
        kind = type(value)
        simple = _SIMPLE.get(kind)
        if simple is not None:
            return [simple, *map(self.word, value)]
        if kind is dict:
            pairs = (part for pair in value.items() for part in pair)
            return ["dict", *map(self.word, pairs)]
        if kind is deque:
            return ["deque", value.maxlen, *map(self.word, value)]
        if isinstance(value, np.ndarray | np.generic):
            return self._array(value)
        return self._named(value, kind)

    def _named(self, value: Any, kind: type) -> list[Any]:
        """Everything else: most of it names a class."""
        if kind is bytes:
            return ["bytes", _text(value)]
        if isinstance(value, Enum):
            return ["enum", _name(kind), value.name]
        if isinstance(value, type):
            return ["class", _name(value)]
        if isinstance(value, types.MethodType):
            return ["method", self.word(value.__self__), value.__name__]
        if isinstance(value, types.FunctionType | types.BuiltinFunctionType | types.ModuleType):
            raise ImageError(f"{value!r} is code, which no image holds")
        if isinstance(value, tuple):
            return ["record", _name(kind), *map(self.word, value)]
        fields = (part for pair in _fields(value) for part in pair)
        return ["object", _name(kind), *map(self.word, fields)]

    def _array(self, value: Any) -> list[Any]:
        if value.dtype.hasobject:
            raise ImageError("an array of objects is in no image")
        kind = "array" if isinstance(value, np.ndarray) else "number"
        plain = np.ascontiguousarray(value)
        return [kind, _plain_dtype(value.dtype), list(value.shape), _text(plain.tobytes())]


class _Reader:
    """Makes the objects of an image, each once."""

    def __init__(self, nodes: list[Any], packages: tuple[str, ...]) -> None:
        self._nodes = nodes
        self._packages = packages
        self._made: dict[int, Any] = {}
        self._open: set[int] = set()

    def node(self, number: int) -> Any:
        """The object of a node."""
        if number in self._made:
            return self._made[number]
        if number in self._open or number < 0:
            raise ImageError(f"node {number} is a part of itself")
        self._open.add(number)
        kind, *parts = self._nodes[number]
        make = _MAKERS.get(kind)
        if make is None:
            raise ImageError(f"'{kind}' is no kind of node")
        made = self._made[number] = make(self, number, parts)
        self._open.discard(number)
        return made

    def word(self, word: Any) -> Any:
        """The value that a word stands for."""
        if isinstance(word, list):
            if len(word) != _REFERENCE or type(word[0]) is not int:
                raise ImageError("a reference is one number")
            return self.node(word[0])
        return word

    def words(self, parts: list[Any]) -> Iterator[Any]:
        return map(self.word, parts)

    def pairs(self, parts: list[Any]) -> Iterator[tuple[Any, Any]]:
        return zip(self.words(parts[::2]), self.words(parts[1::2]), strict=True)

    def class_of(self, name: Any) -> type:
        """A class that images of this reader may name."""
        module, _, path = str(name).partition(":")
        if not any(module == each or module.startswith(f"{each}.") for each in self._packages):
            raise ImageError(f"'{name}' is of no package that is allowed here")
        try:
            found: Any = importlib.import_module(module)
            for step in path.split("."):
                found = found.__dict__[step]
        except (ImportError, KeyError) as error:
            raise ImageError(f"this version has no '{name}'") from error
        if not isinstance(found, type):
            raise ImageError(f"'{name}' is no class")
        return found

    # Kinds of nodes: those that can be changed are known before they are filled, so that what is in
    # them may refer to them.

    def a_list(self, number: int, parts: list[Any]) -> Any:
        made: list[Any] = []
        self._made[number] = made
        made.extend(self.words(parts))
        return made

    def a_set(self, number: int, parts: list[Any]) -> Any:
        made: set[Any] = set()
        self._made[number] = made
        made.update(self.words(parts))
        return made

    def a_dict(self, number: int, parts: list[Any]) -> Any:
        made: dict[Any, Any] = {}
        self._made[number] = made
        made.update(self.pairs(parts))
        return made

    def a_deque(self, number: int, parts: list[Any]) -> Any:
        made: deque[Any] = deque(maxlen=parts[0])
        self._made[number] = made
        made.extend(self.words(parts[1:]))
        return made

    def an_object(self, number: int, parts: list[Any]) -> Any:
        kind = self.class_of(parts[0])
        made: Any = object.__new__(kind)
        self._made[number] = made
        for name, value in self.pairs(parts[1:]):
            object.__setattr__(made, name, value)
        missing = [name for name in _expected(kind) if not hasattr(made, name)]
        if missing:
            raise ImageError(f"'{parts[0]}' of this version has also '{missing[0]}'")
        return made

    def a_record(self, number: int, parts: list[Any]) -> Any:
        kind = self.class_of(parts[0])
        if not issubclass(kind, tuple):
            raise ImageError(f"'{parts[0]}' is no tuple")
        return tuple.__new__(kind, tuple(self.words(parts[1:])))

    def an_enum(self, number: int, parts: list[Any]) -> Any:
        kind = self.class_of(parts[0])
        members = getattr(kind, "__members__", {})
        if parts[1] not in members:
            raise ImageError(f"'{parts[0]}' has no '{parts[1]}'")
        return members[parts[1]]

    def a_method(self, number: int, parts: list[Any]) -> Any:
        found = getattr(self.word(parts[0]), str(parts[1]))
        if not isinstance(found, types.MethodType):
            raise ImageError(f"'{parts[1]}' is no method")
        return found

    def an_array(self, number: int, parts: list[Any]) -> Any:
        made = np.frombuffer(base64.b64decode(parts[2]), dtype=_dtype(parts[0]))
        return made.reshape(tuple(parts[1])).copy()


_MAKERS: dict[Any, Callable[[_Reader, int, list[Any]], Any]] = {
    "array": _Reader.an_array,
    "bytes": lambda _reader, _number, parts: base64.b64decode(parts[0]),
    "class": lambda reader, _number, parts: reader.class_of(parts[0]),
    "deque": _Reader.a_deque,
    "dict": _Reader.a_dict,
    "enum": _Reader.an_enum,
    "frozenset": lambda reader, _number, parts: frozenset(reader.words(parts)),
    "list": _Reader.a_list,
    "method": _Reader.a_method,
    "number": lambda reader, number, parts: reader.an_array(number, parts)[()],
    "object": _Reader.an_object,
    "record": _Reader.a_record,
    "set": _Reader.a_set,
    "tuple": lambda reader, _number, parts: tuple(reader.words(parts)),
}


def _fields(value: object) -> Iterator[tuple[str, Any]]:
    """Every attribute that an object has of its own."""
    for kind in type(value).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if not slot.startswith("__") and hasattr(value, slot):
                yield slot, getattr(value, slot)
    yield from getattr(value, "__dict__", {}).items()


def _expected(kind: type) -> list[str]:
    """Names that every object of a class has."""
    return [each.name for each in dataclasses.fields(kind)] if _is_data(kind) else []


def _is_data(kind: type) -> bool:
    return dataclasses.is_dataclass(kind)


def _name(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _plain_dtype(dtype: np.dtype[Any]) -> Any:
    return dtype.str if dtype.names is None else [list(field) for field in dtype.descr]


def _dtype(plain: Any) -> np.dtype[Any]:
    if isinstance(plain, str):
        return np.dtype(plain)
    return np.dtype([(name, kind, *map(tuple, shape)) for name, kind, *shape in plain])
