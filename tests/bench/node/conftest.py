"""Emulated machines, as the emulator's own tests have them."""

from tests.emulator.conftest import emulator, lib, make_machine

__all__ = ["emulator", "lib", "make_machine"]
