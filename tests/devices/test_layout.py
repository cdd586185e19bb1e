"""The Python mirror of `native/abi.h` agrees with what a C compiler makes of it."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from dure.devices import layout, plane_library

ROOT = Path(__file__).resolve().parents[2]
CONSTANTS = {
    "DURE_ABI_MAGIC": layout.MAGIC,
    "DURE_ABI_VERSION": layout.VERSION,
    "DURE_TENANTS": layout.TENANTS,
    "DURE_CLIENTS": layout.CLIENTS,
    "DURE_SQUADS": layout.SQUADS,
    "DURE_CLASSES": layout.CLASSES,
    "DURE_BUCKETS": layout.BUCKETS,
    "DURE_SAMPLES": layout.SAMPLES,
    "DURE_REASONS": layout.REASONS,
    "DURE_NAME_BYTES": layout.NAME_BYTES,
    "DURE_UUID_BYTES": layout.UUID_BYTES,
    "DURE_PAGE_BYTES": layout.PAGE_BYTES,
    "DURE_TENANT_FREE": layout.TENANT_FREE,
    "DURE_FLAG_CAPTURING": layout.FLAG_CAPTURING,
    "DURE_FLAG_OPEN": layout.FLAG_OPEN,
    "DURE_FLAG_NO_GREEN": layout.FLAG_NO_GREEN,
    "DURE_FLAG_COLLECTIVE": layout.FLAG_COLLECTIVE,
    "DURE_FLAG_GRAPH_UNMOVED": layout.FLAG_GRAPH_UNMOVED,
}
STRUCTURES: dict[str, type[ctypes.Structure]] = {
    **layout.STRUCTURES,
    "dure_plane": plane_library.Plane,
    "dure_launch": plane_library.Launch,
    "dure_set": plane_library.GroupSet,
}


def _fields(structure: type[ctypes.Structure]) -> list[str]:
    return [field[0] for field in structure._fields_]


def _asked() -> list[tuple[str, int]]:
    """C expressions with the value that Python takes them to have."""
    asked = [*CONSTANTS.items()]
    for name, structure in STRUCTURES.items():
        asked.append((f"sizeof(struct {name})", ctypes.sizeof(structure)))
        for field in _fields(structure):
            place = getattr(structure, field)
            asked.append((f"offsetof(struct {name}, {field})", place.offset))
            asked.append((f"sizeof(((struct {name} *)0)->{field})", place.size))
    turn = 0x123456789ABCDEF0
    asked += [
        (f"DURE_TURN_ROUND({turn}ull)", layout.turn_round(turn)),
        (f"DURE_TURN_BUFFER({turn}ull)", layout.turn_buffer(turn)),
        (f"DURE_TURN_SQUAD({turn}ull)", layout.turn_squad(turn)),
        ("DURE_TURN_DORMANT", 1 << 39),
    ]
    return asked


@pytest.fixture(scope="module")
def compiled_values(tmp_path_factory: pytest.TempPathFactory) -> dict[str, int]:
    """The same expressions, as the compiler evaluates them."""
    folder = tmp_path_factory.mktemp("layout")
    lines = [
        f'    printf("%llu %s\\n", (unsigned long long)({text}), "{text}");' for text, _ in _asked()
    ]
    source = folder / "layout.c"
    head = ["#include <stdio.h>", f'#include "{ROOT}/native/plane/plane.h"', "int main(void) {"]
    source.write_text("\n".join([*head, *lines, "    return 0;", "}", ""]))
    program = folder / "layout"
    subprocess.run(["gcc", "-std=gnu11", "-o", program, source], check=True)
    printed = subprocess.run([program], capture_output=True, text=True, check=True).stdout
    pairs = (line.split(" ", 1) for line in printed.splitlines())
    return {text: int(value) for value, text in pairs}


def test_every_offset_size_and_constant_is_the_compilers(compiled_values: dict[str, int]) -> None:
    assert dict(_asked()) == compiled_values
    assert len(compiled_values) > 250


@pytest.mark.parametrize("name", sorted(STRUCTURES))
def test_no_field_of_c_is_missing_in_python(name: str) -> None:
    """Fields tile the structure: a forgotten one would leave a hole of its size."""
    structure = STRUCTURES[name]
    end = 0
    for field in _fields(structure):
        place = getattr(structure, field)
        assert place.offset - end < 8, f"hole before {field}"
        end = place.offset + place.size
    assert ctypes.sizeof(structure) - end < 8
