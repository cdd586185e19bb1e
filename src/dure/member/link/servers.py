"""Addresses of the centre's servers, and channels to them."""

from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

import grpc

from dure.domain.errors import InputError
from dure.wire.parts import MOST_MESSAGE_BYTES

_SECURE, _PLAIN = "https", "http"
_KEEPALIVE_MS = 10_000


@dataclass(frozen=True, slots=True)
class Trust:
    """Files in PEM: whom to trust, and what to show."""

    ca: Path | None = None
    """None: the system's authorities."""
    cert: Path | None = None
    key: Path | None = None

    def credentials(self) -> grpc.ChannelCredentials:
        """For channels; the files are read anew, since they may be renewed."""
        return grpc.ssl_channel_credentials(
            root_certificates=_read(self.ca),
            private_key=_read(self.key),
            certificate_chain=_read(self.cert),
        )


@dataclass(frozen=True, slots=True)
class Server:
    """One server."""

    host: str
    port: int
    secure: bool
    trust: Trust = field(default_factory=Trust)

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def server_of(text: str, trust: Trust) -> Server:
    """`https://HOST:PORT`, or `http://HOST:PORT` without TLS; `HOST:PORT` means with TLS."""
    parts = urlsplit(text if "://" in text else f"{_SECURE}://{text}")
    try:
        port = parts.port
    except ValueError:
        port = None
    if parts.scheme not in (_SECURE, _PLAIN) or not parts.hostname or port is None:
        raise InputError(
            f"'{text}' is no address of a server", "write https://HOST:PORT", field="--server"
        )
    if (trust.cert is None) != (trust.key is None):
        raise InputError("a certificate needs its key", "give --cert and --key")
    trust.credentials()
    return Server(parts.hostname, port, parts.scheme == _SECURE, trust)


def _read(file: Path | None) -> bytes | None:
    if file is None:
        return None
    try:
        return file.read_bytes()
    except OSError as error:
        raise InputError(
            f"{file} cannot be read ({error.strerror})", "name a file in PEM"
        ) from error


def channel_to(server: Server) -> grpc.aio.Channel:
    """A channel that notices a dead peer and takes messages of every size the centre may send."""
    options = [
        ("grpc.max_receive_message_length", MOST_MESSAGE_BYTES),
        ("grpc.max_send_message_length", MOST_MESSAGE_BYTES),
        ("grpc.keepalive_time_ms", _KEEPALIVE_MS),
        ("grpc.enable_retries", 0),
        ("grpc.use_local_subchannel_pool", 1),
    ]
    host = f"[{server.host}]" if ":" in server.host else server.host
    target = f"{host}:{server.port}"
    if not server.secure:
        return grpc.aio.insecure_channel(target, options=options)
    return grpc.aio.secure_channel(target, server.trust.credentials(), options=options)
