"""Files a person writes and reads: YAML that remembers its lines, and writes that never tear.

Whatever is wrong with a file becomes one `FileProblem`, a sentence with the file, the line where
known, and the remedy. YAML is read with the scalar rules of version 1.2: `no`, `on` and `12:30`
stay text and `1e6` is a number. A key given twice is an error, not a silent choice.
"""

import os
import re
import secrets
import shutil
from dataclasses import dataclass, field
from pathlib import Path

import yaml

FieldPath = tuple[str | int, ...]
"""Where a value sits in a document, outermost first: `("tenants", 0, "weight")`."""

MAX_VALUES = 1_000_000
"""Values a file may hold once its aliases are followed: far above any file a person writes."""

_KEY_TAGS = ("tag:yaml.org,2002:str", "tag:yaml.org,2002:merge")


class FileProblem(Exception):  # noqa: N818, a sentence for people, named as they would say it
    """A file cannot be read or written as asked."""

    def __init__(self, file: Path, what: str, remedy: str, line: int | None = None) -> None:
        self.file = file
        self.what = what
        self.remedy = remedy
        self.line = line
        super().__init__(file, what, remedy, line)

    def __str__(self) -> str:
        where = f"{self.file}, line {self.line}" if self.line else f"{self.file}"
        return f"{where}: {self.what}; {self.remedy}"


@dataclass(frozen=True)
class YamlFile:
    """A parsed file: its top-level mapping, and the line every value came from."""

    path: Path
    data: dict[str, object]
    _root: yaml.MappingNode = field(repr=False, compare=False)

    def line_of(self, where: FieldPath) -> int:
        """The line of that field; of its nearest enclosing field where it is not in the file."""
        node: yaml.Node = self._root
        line = _line(node)
        for step in where:
            found = _child(node, step)
            if found is None:
                break
            line, node = found
        return line


def read_text(path: Path) -> str:
    """The whole file as UTF-8 text."""
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise FileProblem(path, "there is no such file", "check the path") from error
    except UnicodeDecodeError as error:
        raise FileProblem(path, "this is not UTF-8 text", "save it as UTF-8") from error
    except OSError as error:
        what = f"cannot be read ({error.strerror})"
        raise FileProblem(path, what, "name a readable file") from error


def read_yaml(path: Path) -> YamlFile:
    """Parse a YAML file whose top level is a mapping of fields."""
    return parse_yaml(read_text(path), path)


def parse_yaml(text: str, path: Path) -> YamlFile:
    """Parse YAML text; `path` is only what the messages call it."""
    try:
        loader = _Loader(text)
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise FileProblem(path, "holds an unprintable character", "remove it", line) from error
    try:
        root = loader.get_single_node()
        if root is None:
            raise FileProblem(path, "the file is empty", "write at least one field")
        if not isinstance(root, yaml.MappingNode):
            raise FileProblem(
                path, "the top level is not a mapping", "write `field: value` lines", _line(root)
            )
        _refuse_unsound(root, path)
        data = loader.construct_document(root)
    except yaml.MarkedYAMLError as error:
        raise _syntax_problem(path, error) from error
    except RecursionError as error:
        raise FileProblem(path, "is nested too deeply", "flatten it") from error
    except ValueError as error:
        raise FileProblem(path, f"holds a value out of range ({error})", "correct it") from error
    finally:
        loader.dispose()
    return YamlFile(path, data, root)


def write_text(path: Path, text: str) -> None:
    """Put `text` in the file so that a reader sees the old content or the new, never a part.

    Missing folders are made. An existing file keeps its mode, a link its target; something that
    is not a regular file, such as a terminal, is written to directly.
    """
    target = path.resolve()
    try:
        if target.exists() and not target.is_file():
            target.write_text(text, encoding="utf-8")
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        _replace(target, text)
    except OSError as error:
        raise FileProblem(
            path, f"cannot be written ({error.strerror})", "name a file in a writable folder"
        ) from error


def _replace(target: Path, text: str) -> None:
    draft = target.with_name(f".{target.name}.{secrets.token_hex(4)}")
    try:
        with draft.open("x", encoding="utf-8") as stream:
            stream.write(text)
            stream.flush()
            os.fsync(stream.fileno())
        if target.exists():
            shutil.copymode(target, draft)
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise


class _Loader(yaml.SafeLoader):
    """PyYAML's safe loader with the scalar rules of YAML 1.2's core schema."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012, PyYAML's own class attribute

    def construct_yaml_int(self, node: yaml.ScalarNode) -> int:
        text = self.construct_scalar(node).replace("_", "")
        return int(text, 16) if text[:2].lower() == "0x" else int(text)


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_yaml_int)
for _tag, _pattern, _first in (
    ("null", r"(?:~|null|Null|NULL|)", ["~", "n", "N", ""]),
    ("bool", r"(?:true|True|TRUE|false|False|FALSE)", list("tTfF")),
    ("int", r"(?:[-+]?[0-9][0-9_]*|0x[0-9a-fA-F_]+)", list("-+0123456789")),
    (
        "float",
        r"(?:[-+]?(?:\.[0-9]+|[0-9][0-9_]*(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))",
        list("-+.0123456789"),
    ),
    ("merge", r"<<", ["<"]),
):
    _Loader.add_implicit_resolver(f"tag:yaml.org,2002:{_tag}", re.compile(rf"^{_pattern}$"), _first)


def _syntax_problem(path: Path, error: yaml.MarkedYAMLError) -> FileProblem:
    mark = error.problem_mark or error.context_mark
    what = " ".join((error.problem or error.context or "syntax error").split())
    return FileProblem(
        path, f"this is not valid YAML ({what})", "correct it", mark.line + 1 if mark else None
    )


def _refuse_unsound(root: yaml.Node, path: Path) -> None:
    """Refuse keys that are repeated or not text, and aliases that loop or multiply without end."""
    sizes: dict[int, int] = {}
    open_nodes: set[int] = set()

    def size_of(node: yaml.Node) -> int:
        if isinstance(node, yaml.ScalarNode):
            return 1
        if id(node) in sizes:
            return sizes[id(node)]
        if id(node) in open_nodes:
            raise FileProblem(path, "a value contains itself", "remove the alias", _line(node))
        open_nodes.add(id(node))
        if isinstance(node, yaml.MappingNode):
            _refuse_bad_keys(node, path)
            size = 1 + sum(size_of(value) for _, value in node.value)
        else:
            size = 1 + sum(size_of(item) for item in node.value)
        if size > MAX_VALUES:
            what = f"aliases make this more than {MAX_VALUES:,} values"
            raise FileProblem(path, what, "repeat less", _line(node))
        open_nodes.discard(id(node))
        sizes[id(node)] = size
        return size

    size_of(root)


def _refuse_bad_keys(node: yaml.MappingNode, path: Path) -> None:
    seen: dict[str, int] = {}
    for key, _ in node.value:
        if key.tag not in _KEY_TAGS:
            raise FileProblem(path, "a field's name is not text", "put it in quotes", _line(key))
        if key.value in seen:
            raise FileProblem(
                path,
                f"`{key.value}` is already given on line {seen[key.value]}",
                "keep one of the two",
                _line(key),
            )
        seen[key.value] = _line(key)


def _child(node: yaml.Node, step: str | int) -> tuple[int, yaml.Node] | None:
    if isinstance(node, yaml.MappingNode):
        for key, value in reversed(node.value):
            if key.value == str(step):
                return _line(key), value
        return None
    if isinstance(node, yaml.SequenceNode) and step in range(len(node.value)):
        item = node.value[int(step)]
        return _line(item), item
    return None


def _line(node: yaml.Node) -> int:
    return int(node.start_mark.line) + 1
