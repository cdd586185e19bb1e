"""Errors of pausing that every runtime may raise."""

from dure.domain.errors import DureError


class StillHeldError(DureError):
    """A pause failed, but its container is, or may yet be, kept from the GPU: it stays owed until
    it was let go."""
