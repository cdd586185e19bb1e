"""kubeconfig files as they are written: read, merged, and refused in one sentence."""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from dure.domain.errors import InputError
from dure.kit.files import FileProblem, read_yaml


class Bytes(NamedTuple):
    """Something given either in the file, in base64, or by the name of another file."""

    data: str
    file: str


class _Part(BaseModel):
    """A mapping of a kubeconfig; what Dure does not need is not looked at."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    @field_validator("*", mode="before")
    @classmethod
    def _null_is_absent(cls, value: object, info: object) -> object:
        """kubectl writes `clusters: null` where there are none."""
        name = getattr(info, "field_name", "")
        return cls.model_fields[name].get_default() if value is None else value


class Cluster(_Part):
    """Where a cluster is, and whom to trust about it."""

    server: str = ""
    certificate_authority: str = Field(default="", alias="certificate-authority")
    certificate_authority_data: str = Field(default="", alias="certificate-authority-data")
    insecure_skip_tls_verify: bool = Field(default=False, alias="insecure-skip-tls-verify")
    tls_server_name: str = Field(default="", alias="tls-server-name")
    proxy_url: str = Field(default="", alias="proxy-url")

    @property
    def authority(self) -> Bytes:
        """Whom to trust."""
        return Bytes(self.certificate_authority_data, self.certificate_authority)


class Variable(_Part):
    """One of a plugin's environment."""

    name: str
    value: str = ""


class Plugin(_Part):
    """A program that prints credentials."""

    command: str
    args: tuple[str, ...] = ()
    env: tuple[Variable, ...] = ()
    api_version: str = Field(default="client.authentication.k8s.io/v1", alias="apiVersion")
    install_hint: str = Field(default="", alias="installHint")


class User(_Part):
    """Who the client is."""

    token: str = Field(default="", repr=False)
    token_file: str = Field(default="", alias="tokenFile")
    client_certificate: str = Field(default="", alias="client-certificate")
    client_certificate_data: str = Field(default="", alias="client-certificate-data", repr=False)
    client_key: str = Field(default="", alias="client-key")
    client_key_data: str = Field(default="", alias="client-key-data", repr=False)
    exec: Plugin | None = None

    @property
    def certificate(self) -> Bytes:
        """The client's certificate."""
        return Bytes(self.client_certificate_data, self.client_certificate)

    @property
    def key(self) -> Bytes:
        """The key of its certificate."""
        return Bytes(self.client_key_data, self.client_key)


class Context(_Part):
    """A user of a cluster."""

    cluster: str = ""
    user: str = ""
    namespace: str = ""


class _NamedCluster(_Part):
    name: str
    cluster: Cluster = Cluster()


class _NamedUser(_Part):
    name: str
    user: User = User()


class _NamedContext(_Part):
    name: str
    context: Context = Context()


class _Document(_Part):
    current_context: str = Field(default="", alias="current-context")
    clusters: tuple[_NamedCluster, ...] = ()
    users: tuple[_NamedUser, ...] = ()
    contexts: tuple[_NamedContext, ...] = ()


_V = TypeVar("_V")


@dataclass(frozen=True)
class KubeConfig:
    """One or several files, merged: what is named twice counts as it was named first."""

    file: Path
    """The first of them."""
    current_context: str
    clusters: dict[str, Cluster]
    users: dict[str, User]
    contexts: dict[str, Context]

    def context(self, name: str) -> Context:
        """The one named, else the current one."""
        wanted = name or self.current_context
        if not wanted:
            raise InputError(
                "no context is current",
                f"name one of {_listed(self.contexts)}",
                file=str(self.file),
                field="current-context",
            )
        return self._find("context", wanted, self.contexts)

    def cluster(self, name: str) -> Cluster:
        """The one a context names."""
        return self._find("cluster", name, self.clusters)

    def user(self, name: str) -> User:
        """The one a context names; nobody in particular where it names none."""
        return self._find("user", name, self.users) if name else User()

    def _find(self, what: str, name: str, known: dict[str, _V]) -> _V:
        if name not in known:
            raise InputError(
                f"there is no {what} '{name}'",
                f"name one of {_listed(known)}",
                file=str(self.file),
                field=f"{what}s",
            )
        return known[name]


def read_kubeconfigs(files: Sequence[Path]) -> KubeConfig:
    """Read and merge; paths come out whole, as each is relative to the file it is in."""
    merged = KubeConfig(files[0], "", {}, {}, {})
    current = ""
    for file in files:
        document = _read(file)
        current = current or document.current_context
        for cluster in document.clusters:
            merged.clusters.setdefault(cluster.name, _placed(cluster.cluster, file.parent))
        for user in document.users:
            merged.users.setdefault(user.name, _placed_user(user.user, file.parent))
        for context in document.contexts:
            merged.contexts.setdefault(context.name, context.context)
    return KubeConfig(files[0], current, merged.clusters, merged.users, merged.contexts)


_P = TypeVar("_P", bound=_Part)
_FILE_FIELDS = ("certificate_authority", "token_file", "client_certificate", "client_key")


def _placed(part: _P, folder: Path) -> _P:
    named = {name: getattr(part, name, "") for name in _FILE_FIELDS}
    whole = {name: str(folder / Path(path).expanduser()) for name, path in named.items() if path}
    return part.model_copy(update=whole)


def _placed_user(user: User, folder: Path) -> User:
    placed = _placed(user, folder)
    if placed.exec is None or os.sep not in placed.exec.command:  # a bare name is on PATH
        return placed
    command = {"command": str(folder / placed.exec.command)}
    return placed.model_copy(update={"exec": placed.exec.model_copy(update=command)})


def _read(file: Path) -> _Document:
    try:
        return _Document.model_validate(read_yaml(file).data)
    except FileProblem as problem:
        what = f"line {problem.line}: {problem.what}" if problem.line else problem.what
        raise InputError(what, problem.remedy, file=str(file)) from problem
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        raise InputError(
            first["msg"],
            "correct the kubeconfig",
            file=str(file),
            field=".".join(str(part) for part in first["loc"]),
        ) from None  # the original would show secrets


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)) or "none, the file has none"
