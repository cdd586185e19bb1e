"""Compiled code is thrown away with any source it came from."""

import ast
from pathlib import Path

import dure
from dure.sim.kernel import compiled, engine

ROOT = Path(dure.__file__).parent.resolve()
LOOP = Path(engine.__file__).resolve()


class Module:
    """What a module of this project defines and what it takes from others."""

    def __init__(self, path: Path) -> None:
        self.imports: dict[str, tuple[Path, str]] = {}
        self._uses: dict[str, set[str]] = {}
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom):
                self._note_imports(node)
                continue
            used = {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}
            defined = {getattr(node, "name", "")} | {
                part.id
                for part in ast.walk(node)
                if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)
            }
            for name in defined:
                self._uses[name] = used

    def needs(self, name: str) -> set[str]:
        """Every name that the definition of a name rests on, itself included."""
        found: set[str] = set()
        open_ = {name}
        while open_:
            found |= open_
            open_ = {used for one in open_ for used in self._uses.get(one, ())} - found
        return found

    def _note_imports(self, node: ast.ImportFrom) -> None:
        if node.module and node.module.startswith("dure."):
            path = ROOT.joinpath(*node.module.split(".")[1:]).with_suffix(".py")
            assert path.is_file(), f"{node.module} is not a module"
            self.imports |= {alias.name: (path, alias.name) for alias in node.names}


def sources(path: Path, names: set[str] | None = None) -> set[Path]:
    """A module with all that these names of it, or every import of it, come from."""
    module = Module(path)
    needed = set(module.imports) if names is None else {n for x in names for n in module.needs(x)}
    found = {path}
    for name in needed & set(module.imports):
        source, original = module.imports[name]
        inside = source.parent == LOOP.parent
        if source != path:
            found |= sources(source, None if inside else {original})
    return found


def test_every_source_of_compiled_code_is_part_of_the_digest() -> None:
    listed = {(LOOP.parent / name).resolve() for name in compiled._SOURCES}
    assert listed == sources(LOOP)


def test_nothing_is_compiled_outside_of_what_the_loop_imports() -> None:
    """A module with compiled functions of its own would need a place in the list."""
    own = {path for path in LOOP.parent.rglob("*.py") if "@compiled\n" in path.read_text("utf-8")}
    assert own
    assert own <= sources(LOOP)
