"""What `dure server` is started with: options, a file of settings, and what must not be mixed."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

import yaml

from dure.domain.errors import InputError
from dure.domain.units import MIB
from dure.server.oidc_settings import refuse_incomplete, with_oidc
from dure.server.rest.settings import with_rest
from dure.server.settings import Listening, ServerSettings

DATA_VARIABLE = "XDG_STATE_HOME"
_LARGEST_PORT = 65535


@dataclass(frozen=True)
class ServerOptions:
    """One server."""

    data: Path
    """Its folder: the embedded database, the first token."""
    database: str = ""
    """Address; empty: SQLite in the folder."""
    bus: str = ""
    """Address; empty: hints stay inside the process."""
    series: str = "sqlite"
    """sqlite: a file in the folder; off: nowhere; or the address of a server."""
    series_bytes: int = 512 * MIB
    """Of the file."""
    series_token: str = ""
    """For the server of series."""
    insecure: bool = False
    """Whether it may be reached from other machines without TLS."""
    settings: ServerSettings = field(default_factory=ServerSettings)

    @property
    def address(self) -> str:
        """Of the database."""
        return self.database or f"sqlite:///{self.data / 'state.db'}"

    @property
    def series_file(self) -> Path:
        """What was measured."""
        return self.data / "series.db"

    @property
    def token_file(self) -> Path:
        """Where the very first token is left, for its owner alone."""
        return self.data / "admin-token"


def default_data(environment: Mapping[str, str] = os.environ) -> Path:
    """The folder of a server that was told none."""
    stated = environment.get(DATA_VARIABLE)
    base = Path(stated) if stated else Path.home() / ".local" / "state"
    return base / "dure" / "server"


def make_data(folder: Path) -> None:
    """Have the folder, for its owner alone."""
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be used ({error.strerror})", "name another folder with --data"
        ) from error


def address_of(text: str, what: str) -> tuple[str, int]:
    """HOST:PORT as its two parts; an IPv6 address is in brackets."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > _LARGEST_PORT:
        raise InputError(f"{text!r} is no address", "write HOST:PORT", field=what)
    return host, int(port)


def check(options: ServerOptions) -> None:
    """Refuse what would be unsafe, or cannot work."""
    if options.settings.oidc is not None:
        refuse_incomplete(options.settings.oidc)
    listening = options.settings.listening
    if bool(listening.tls_cert) != bool(listening.tls_key):
        raise InputError("TLS needs a certificate and its key", "give --tls-cert and --tls-key")
    if listening.tls_client_ca and not listening.tls_cert:
        raise InputError(
            "certificates of members can only be asked for over TLS",
            "give --tls-cert and --tls-key",
        )
    for file in (listening.tls_cert, listening.tls_key, listening.tls_client_ca):
        if file and not os.access(file, os.R_OK):
            raise InputError(f"{file} cannot be read", "check the path and its permissions")
    if listening.tls_cert or options.insecure:
        return
    for host in (listening.rest_host, listening.grpc_host):
        if not is_loopback(host):
            raise InputError(
                f"{host} can be reached from other machines and there is no TLS: tokens would be "
                "readable on the way",
                "give --tls-cert and --tls-key, or --insecure where something else encrypts",
            )


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach an address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def read_settings(file: Path) -> dict[str, Any]:
    """A YAML file of settings by their names, with - for _."""
    try:
        found = yaml.safe_load(file.read_text(encoding="utf-8"))
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise InputError(f"cannot be read ({error})", "check the file", file=str(file)) from error
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise InputError("is no mapping of settings", "write NAME: VALUE", file=str(file))
    return {str(name).replace("-", "_"): value for name, value in found.items()}


def with_settings(settings: ServerSettings, given: Mapping[str, Any], file: str) -> ServerSettings:
    """The settings with those that are given; unknown ones and wrong kinds are refused."""
    if "rest" in given:
        settings = replace(settings, rest=with_rest(settings.rest, given["rest"], file))
    if "oidc" in given:
        settings = replace(settings, oidc=with_oidc(settings.oidc, given["oidc"], file))
    given = {name: value for name, value in given.items() if name not in {"rest", "oidc"}}
    own: dict[str, Any] = {
        each.name: float for each in fields(ServerSettings) if each.type is float
    }
    listens = {
        each.name: type(getattr(settings.listening, each.name)) for each in fields(Listening)
    }
    kinds = own | listens
    listening: dict[str, Any] = {}
    rest: dict[str, Any] = {}
    for name, value in given.items():
        if name not in kinds:
            known = ", ".join(sorted(each.replace("_", "-") for each in kinds))
            raise InputError("is no setting", f"use one of {known}", file=file, field=name)
        kind = kinds[name]
        if type(value) is not kind and not (kind is float and type(value) is int):
            raise InputError(
                f"{value!r} is no {kind.__name__}", "correct it", file=file, field=name
            )
        if kind is float and not value > 0:
            raise InputError(f"{value!r} is not above zero", "correct it", file=file, field=name)
        (rest if name in own else listening)[name] = kind(value)
    return replace(settings, listening=replace(settings.listening, **listening), **rest)
