"""Errors of pausing that every runtime may raise."""

from dure.domain.errors import DureError


class StillHeldError(DureError):
    """A pause failed, but its container is, or may yet be, kept from the GPU: it stays owed until
    it was let go."""


class RestlessError(DureError):
    """A pause failed since its container did not come to rest in time: it makes a CUDA context, or
    copies. Soon it may work."""
