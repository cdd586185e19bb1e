"""Compiled code is thrown away with any source it came from."""

import ast
from pathlib import Path

import dure
from dure.sim.kernel import compiled, engine

ROOT = Path(dure.__file__).parent


def imported(source: Path) -> set[Path]:
    """Modules of this project that a module imports, by their files."""
    found = set()
    for node in ast.walk(ast.parse(source.read_text(encoding="utf-8"))):
        names: list[str] = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        for name in names:
            if name.startswith("dure."):
                path = ROOT.joinpath(*name.split(".")[1:]).with_suffix(".py")
                if path.is_file():
                    found.add(path)
    return found


def reachable(source: Path) -> set[Path]:
    """A module with all it imports, directly or not."""
    seen: set[Path] = set()
    open_ = {source}
    while open_:
        seen |= open_
        open_ = {path for module in open_ for path in imported(module)} - seen
    return seen


def test_every_source_of_compiled_code_is_part_of_the_digest() -> None:
    folder = Path(compiled.__file__).parent
    listed = {(folder / name).resolve() for name in compiled._SOURCES}
    assert listed == reachable(Path(engine.__file__).resolve())


def test_nothing_is_compiled_outside_of_what_the_loop_imports() -> None:
    """A module with compiled functions of its own would need a place in the list."""
    own = {
        path.resolve()
        for path in ROOT.rglob("*.py")
        if "@compiled\n" in path.read_text(encoding="utf-8")
    }
    assert own
    assert own <= reachable(Path(engine.__file__).resolve())
