"""Find the compiled files that `pip install` built."""

from pathlib import Path

from dure.domain.errors import InputError

FOLDER = Path(__file__).resolve().parent / "lib"


def path(name: str) -> Path:
    """Where a built file is, such as "libdure.so" or "emulator/libcuda.so.1"."""
    found = FOLDER / name
    if not found.is_file():
        raise InputError(
            f"{name} was not built when Dure was installed",
            "install a C compiler (gcc) and install Dure again,"
            " or run `python native/build.py` in its source tree",
        )
    return found
