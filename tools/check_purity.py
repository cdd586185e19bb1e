"""Refuse clocks, randomness, environment and I/O in the packages that decide.

A machine that reads nothing but its events can be replayed from a journal, run in virtual time and
tested in microseconds. One call of `time.time()` ends all three, so the calls are banned by name.
The pure packages are listed in `pyproject.toml` under `[tool.purity]`.

    python tools/check_purity.py [FOLDER ...]     exit 0: pure, 1: not, with a line for each place
"""

import ast
import builtins
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


@dataclass(frozen=True)
class Rule:
    """Dotted names (each with all that is below it) banned for one reason, with one remedy."""

    names: frozenset[str]
    reason: str
    remedy: str
    allowed: frozenset[str] = frozenset()


@dataclass(frozen=True, order=True)
class Finding:
    """One use of a banned name."""

    file: str
    line: int
    name: str
    reason: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: `{self.name}` {self.reason}; {self.remedy}"


RULES = (
    Rule(
        frozenset(
            {
                "time",
                "datetime.date.today",
                "datetime.datetime.now",
                "datetime.datetime.today",
                "datetime.datetime.utcnow",
            }
        ),
        "reads the clock, so the same events would not give the same decision twice",
        "take `now_ns` from the event",
    ),
    Rule(
        frozenset({"numpy.random", "os.urandom", "random", "secrets", "uuid.uuid1", "uuid.uuid4"}),
        "draws randomness that no seed of the caller controls, so a replay would differ",
        "take a `numpy.random.Generator` as an argument",
        allowed=frozenset({"numpy.random.Generator"}),
    ),
    Rule(
        frozenset({"os.environ", "os.environb", "os.getenv", "platform", "sys.argv"}),
        "reads the surroundings of the process, so two machines would decide differently",
        "take the value as a parameter",
    ),
    Rule(
        frozenset(
            {
                "asyncio",
                "builtins.__import__",
                "builtins.input",
                "builtins.open",
                "builtins.print",
                "http",
                "importlib",
                "io.open",
                "logging",
                "mmap",
                "multiprocessing",
                "os",
                "pathlib.Path.cwd",
                "pathlib.Path.home",
                "pathlib.Path.read_bytes",
                "pathlib.Path.read_text",
                "pathlib.Path.write_bytes",
                "pathlib.Path.write_text",
                "select",
                "selectors",
                "shutil",
                "signal",
                "socket",
                "sqlite3",
                "subprocess",
                "sys.stderr",
                "sys.stdin",
                "sys.stdout",
                "tempfile",
                "threading",
                "urllib.request",
            }
        ),
        "touches the world, which deciders only describe",
        "return an instruction, or move this to the caller",
    ),
)

FILE_METHODS = frozenset({"read_bytes", "read_text", "write_bytes", "write_text"})
"""Method names that give a path away on an object whose type the syntax does not show."""


def main(arguments: list[str]) -> int:
    """Check the folders given, or those of `pyproject.toml`."""
    folders = [Path(argument) for argument in arguments] or pure_packages(ROOT)
    findings = [finding for folder in folders for finding in check_folder(folder)]
    for finding in findings:
        print(finding)
    return 1 if findings else 0


def pure_packages(root: Path) -> list[Path]:
    """The folders that `pyproject.toml` declares pure."""
    settings = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return [root / name for name in settings["tool"]["purity"]["packages"]]


def check_folder(folder: Path) -> Iterator[Finding]:
    """Every banned use in the Python files of a folder."""
    if not folder.is_dir():
        raise SystemExit(f"{folder}: there is no such folder; correct [tool.purity] packages")
    for file in sorted(folder.rglob("*.py")):
        yield from check_source(file.read_text(encoding="utf-8"), _shown(file))


def check_source(source: str, file: str) -> list[Finding]:
    """Every banned use in one module's text, in order of lines, one for each name and line."""
    tree = ast.parse(source, filename=file)
    names = _Names(tree)
    uses = {(line, used) for line, used in names.uses(tree)}
    return sorted(
        Finding(file, line, name, rule.reason, rule.remedy)
        for line, name in uses
        if (rule := _rule_against(name)) is not None
    )


class _Names:
    """What each name of a module stands for, as far as imports and builtins tell."""

    def __init__(self, tree: ast.Module) -> None:
        self.imported: dict[str, str] = {}
        bound: set[str] = set()
        for node in ast.walk(tree):
            match node:
                case ast.Import():
                    for alias in node.names:
                        local = alias.asname or alias.name.partition(".")[0]
                        self.imported[local] = alias.name if alias.asname else local
                case ast.ImportFrom(module=str(module), level=0):
                    for alias in node.names:
                        self.imported[alias.asname or alias.name] = f"{module}.{alias.name}"
                case ast.Name(id=name, ctx=ast.Store()):
                    bound.add(name)
                case ast.arg(arg=name) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                    bound.add(name)
        self.builtins = set(dir(builtins)) - bound - set(self.imported)

    def uses(self, tree: ast.Module) -> Iterator[tuple[int, str]]:
        """Each (line, dotted name) that an import or an expression refers to."""
        inner = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(tree):
            match node:
                case ast.Import():
                    yield from ((node.lineno, alias.name) for alias in node.names)
                case ast.ImportFrom(module=str(module), level=0):
                    yield from ((node.lineno, f"{module}.{alias.name}") for alias in node.names)
                case ast.Attribute(attr=attr) if attr in FILE_METHODS:
                    yield node.lineno, f"pathlib.Path.{attr}"
                case ast.Attribute() | ast.Name() if id(node) not in inner:
                    name = self._dotted(node)
                    if name is not None:
                        yield node.lineno, name

    def _dotted(self, node: ast.expr) -> str | None:
        match node:
            case ast.Name(id=name) if name in self.imported:
                return self.imported[name]
            case ast.Name(id=name) if name in self.builtins:
                return f"builtins.{name}"
            case ast.Attribute(value=value, attr=attr):
                owner = self._dotted(value)
                return f"{owner}.{attr}" if owner else None
        return None


def _rule_against(name: str) -> Rule | None:
    prefixes = set(_prefixes(name))
    for rule in RULES:
        if prefixes & rule.names and not prefixes & rule.allowed:
            return rule
    return None


def _prefixes(name: str) -> Iterable[str]:
    parts = name.split(".")
    return (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _shown(file: Path) -> str:
    resolved = file.resolve()
    return str(resolved.relative_to(ROOT) if resolved.is_relative_to(ROOT) else file)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
