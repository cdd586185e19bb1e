"""Which centre to ask, and as whom: contexts in a file, or two variables."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import yaml
from pydantic import Field, ValidationError

from dure.api.base import Document
from dure.api.complaints import complaints
from dure.domain.errors import InputError
from dure.kit.files import read_yaml
from dure.kit.words import nearest

SERVER_VARIABLE, TOKEN_VARIABLE = "DURE_SERVER", "DURE_TOKEN"
CA_VARIABLE, CONTEXT_VARIABLE = "DURE_CA", "DURE_CONTEXT"
DEFAULT_SERVER = "http://127.0.0.1:7600"


@dataclass(frozen=True)
class Context:
    """A centre: any of its servers will do."""

    servers: tuple[str, ...]
    token: str = ""
    ca_file: str = ""
    """Of the authority that vouches for the servers; empty: those of the system."""


class _ContextEntry(Document):
    """A context in the file."""

    servers: list[str] = Field(min_length=1)
    token: str = ""
    ca_file: str = ""


class _ConfigFile(Document):
    """The file."""

    current: str = ""
    contexts: dict[str, _ContextEntry] = Field(default_factory=dict)


def config_file(environment: Mapping[str, str] = os.environ) -> Path:
    """Where contexts are kept."""
    stated = environment.get("XDG_CONFIG_HOME")
    base = Path(stated) if stated else Path.home() / ".config"
    return base / "dure" / "config.yaml"


def load_context(name: str = "", environment: Mapping[str, str] = os.environ) -> Context:
    """The context to use: by variables, else one of the file, else a server on this machine."""
    servers = environment.get(SERVER_VARIABLE, "")
    if servers and not name:
        return Context(
            _servers(servers.split(","), SERVER_VARIABLE),
            _token(environment.get(TOKEN_VARIABLE, ""), TOKEN_VARIABLE),
            environment.get(CA_VARIABLE, ""),
        )
    file = config_file(environment)
    stored = _read(file)
    wanted = name or environment.get(CONTEXT_VARIABLE, "") or stored.current
    if not wanted:
        return Context(
            (DEFAULT_SERVER,), _token(environment.get(TOKEN_VARIABLE, ""), TOKEN_VARIABLE)
        )
    if wanted not in stored.contexts:
        remedy = nearest(wanted, stored.contexts) if stored.contexts else "run `dure login`"
        raise InputError(f"there is no context '{wanted}'", remedy, file=str(file))
    entry = stored.contexts[wanted]
    said = environment.get(TOKEN_VARIABLE, "")
    token = _token(said, TOKEN_VARIABLE) or _token(entry.token, f"{wanted}.token")
    return Context(_servers(entry.servers, f"{wanted}.servers"), token, entry.ca_file)


def save_context(name: str, context: Context, environment: Mapping[str, str] = os.environ) -> Path:
    """Keep a context and make it the current one, in a file that only its owner may read."""
    file = config_file(environment)
    stored = _read(file)
    entry = _ContextEntry(
        servers=list(context.servers), token=context.token, ca_file=context.ca_file
    )
    new = _ConfigFile(current=name, contexts={**stored.contexts, name: entry})
    text = yaml.safe_dump(new.model_dump(mode="json", exclude_defaults=True), sort_keys=False)
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = file.with_name(f".{file.name}.part")
    part.unlink(missing_ok=True)
    descriptor = os.open(part, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(text)
    part.replace(file)
    return file


def _read(file: Path) -> _ConfigFile:
    if not file.exists():
        return _ConfigFile()
    data = read_yaml(file).data
    try:
        return _ConfigFile.model_validate(data, by_alias=True, by_name=False)
    except ValidationError as error:
        first = complaints(error, _ConfigFile)[0]
        raise InputError(first.detail, first.remedy, file=str(file), field=first.field) from error


def _token(text: str, field: str) -> str:
    """A token that can be sent; one that cannot is not repeated to anybody."""
    token = text.strip()
    if not (token.isascii() and token.isprintable()) or " " in token:
        raise InputError(
            "is no token: it has a space, or a character that none has",
            "copy it whole and alone",
            field=field,
        )
    return token


def _servers(urls: list[str], field: str) -> tuple[str, ...]:
    found = tuple(url.strip().rstrip("/") for url in urls if url.strip())
    for url in found:
        if not url.startswith(("http://", "https://")):
            raise InputError(
                f"'{url}' is no server", "write http://HOST:PORT or https://…", field=field
            )
    if not found:
        raise InputError("names no server", "write http://HOST:PORT or https://…", field=field)
    return found
