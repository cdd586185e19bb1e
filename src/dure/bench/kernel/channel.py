"""A line of JSON each way between the bench and a worker, over a UNIX socket, with time limits."""

import json
import socket
from pathlib import Path
from typing import Any

from dure.domain.errors import DureError

_PIECE_BYTES = 1 << 16


class ChannelError(DureError):
    """The other end did not answer, or is gone."""


class Channel:
    """One end."""

    def __init__(self, connection: socket.socket, name: str) -> None:
        self._connection = connection
        self.name = name
        self._rest = b""

    @classmethod
    def connect(cls, path: Path, name: str) -> "Channel":
        """The worker's end."""
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        connection.connect(str(path))
        return cls(connection, name)

    def send(self, message: dict[str, Any]) -> None:
        """Send one message."""
        try:
            self._connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError as error:
            raise ChannelError(f"{self.name} is gone", "see its log") from error

    def receive(self, limit_s: float | None = None) -> dict[str, Any]:
        """The next message, within a limit for every piece of it."""
        self._connection.settimeout(limit_s)
        while b"\n" not in self._rest:
            try:
                piece = self._connection.recv(_PIECE_BYTES)
            except TimeoutError as error:
                raise ChannelError(
                    f"{self.name} did not answer within {limit_s:g} s", "see its log"
                ) from error
            except OSError as error:
                raise ChannelError(f"{self.name} is gone", "see its log") from error
            if not piece:
                raise ChannelError(f"{self.name} is gone", "see its log")
            self._rest += piece
        line, _, self._rest = self._rest.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        """Let go; the other end sees it."""
        self._connection.close()
