"""How a cluster is reached: kubeconfig files with their contexts, or the account of a Pod."""

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from dure.domain.errors import InputError
from dure.kube.kubeconfig import Bytes, KubeConfig, User, read_kubeconfigs
from dure.kube.tokens import FileToken, PluginToken, StatedToken, TokenSource

KUBECONFIG_VARIABLE = "KUBECONFIG"
_DEFAULT_FILE = Path(".kube") / "config"
_POD_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")


@dataclass(frozen=True)
class ClientCertificate:
    """Who the client is, by certificate; both in PEM."""

    certificate: bytes
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class Access:
    """Address and credentials of one cluster."""

    url: str
    namespace: str = "default"
    """Where objects go that name none."""
    tokens: TokenSource | None = None
    certificate: ClientCertificate | None = None
    authority: bytes | None = None
    """Whom to trust, in PEM; the system's authorities where none."""
    server_name: str = ""
    """The name in the server's certificate, where the address has another."""
    insecure: bool = False
    proxy: str | None = None

    def tls(self) -> ssl.SSLContext:
        """Whom to trust, and what to show."""
        try:
            context = ssl.create_default_context(
                cadata=self.authority.decode("ascii") if self.authority else None
            )
            if self.certificate:
                _load(context, self.certificate)
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise InputError(
                f"a certificate for {self.url} cannot be used ({error})",
                "give certificates and keys that belong together, in PEM",
            ) from error
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        return context


def load_access(
    kubeconfig: Path | None = None,
    context: str = "",
    environment: Mapping[str, str] = os.environ,
    pod_account: Path = _POD_ACCOUNT,
) -> Access:
    """Access as kubectl would find it: the file named, KUBECONFIG, ~/.kube/config, the own Pod."""
    if kubeconfig is not None:
        return _from_files([kubeconfig], context)
    stated = environment.get(KUBECONFIG_VARIABLE, "")
    files = [Path(part) for part in stated.split(os.pathsep) if part]
    if files:
        present = [file for file in files if file.exists()]  # as kubectl does
        return _from_files(present or files, context)
    usual = Path(environment.get("HOME", "/")) / _DEFAULT_FILE
    if usual.exists():
        return _from_files([usual], context)
    host = environment.get("KUBERNETES_SERVICE_HOST", "")
    if host and pod_account.is_dir():
        return _from_pod(host, environment.get("KUBERNETES_SERVICE_PORT", "443"), pod_account)
    raise InputError(
        "there is no kubeconfig and this is not a Pod",
        f"name a kubeconfig file, or set {KUBECONFIG_VARIABLE}",
    )


def _from_pod(host: str, port: str, account: Path) -> Access:
    named = account / "namespace"
    return Access(
        url=f"https://[{host}]:{port}" if ":" in host else f"https://{host}:{port}",
        namespace=named.read_text(encoding="utf-8").strip() if named.exists() else "default",
        tokens=FileToken(account / "token"),
        authority=(account / "ca.crt").read_bytes(),
    )


def _from_files(files: list[Path], context: str) -> Access:
    config = read_kubeconfigs(files)
    chosen = config.context(context)
    cluster = config.cluster(chosen.cluster)
    user = config.user(chosen.user)
    where = urlsplit(cluster.server)
    if where.scheme not in ("http", "https") or not where.hostname:
        raise InputError(
            f"'{cluster.server}' is not the address of an API server",
            "write https://host:port",
            file=str(config.file),
            field="clusters.cluster.server",
        )
    return Access(
        url=cluster.server.rstrip("/"),
        namespace=chosen.namespace or "default",
        tokens=_tokens(user),
        certificate=_certificate(config, user),
        authority=_bytes(config, cluster.authority, "certificate-authority"),
        server_name=cluster.tls_server_name,
        insecure=cluster.insecure_skip_tls_verify,
        proxy=cluster.proxy_url or _proxy(where.scheme, where.hostname),
    )


def _proxy(scheme: str, host: str) -> str | None:
    return None if proxy_bypass(host) else getproxies().get(scheme)


def _tokens(user: User) -> TokenSource | None:
    if user.token_file:
        return FileToken(Path(user.token_file))
    if user.token:
        return StatedToken(user.token)
    if user.exec is None:
        return None
    plugin = user.exec
    return PluginToken(
        command=(plugin.command, *plugin.args),
        environment={variable.name: variable.value for variable in plugin.env},
        api_version=plugin.api_version,
        hint=plugin.install_hint,
    )


def _certificate(config: KubeConfig, user: User) -> ClientCertificate | None:
    certificate = _bytes(config, user.certificate, "client-certificate")
    key = _bytes(config, user.key, "client-key")
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        raise InputError(
            "a client certificate needs its key and the other way round",
            "give client-certificate and client-key",
            file=str(config.file),
            field="users.user",
        )
    return ClientCertificate(certificate, key)


def _bytes(config: KubeConfig, source: Bytes, what: str) -> bytes | None:
    """What is written in the kubeconfig itself, else what the file it names holds."""
    if source.data:
        try:
            return base64.b64decode(source.data, validate=True)
        except binascii.Error as error:
            raise InputError(
                "this is not base64", "copy it whole", file=str(config.file), field=f"{what}-data"
            ) from error
    if not source.file:
        return None
    path = Path(source.file)
    try:
        return path.read_bytes()
    except OSError as error:
        raise InputError(
            f"{path} cannot be read ({error.strerror})",
            "name a readable file",
            file=str(config.file),
            field=what,
        ) from error


def _load(context: ssl.SSLContext, certificate: ClientCertificate) -> None:
    """OpenSSL takes a client's certificate from a file only; it is gone before this returns."""
    with tempfile.NamedTemporaryFile() as file:  # mode 0600
        file.write(certificate.certificate + b"\n" + certificate.key)
        file.flush()
        context.load_cert_chain(file.name)
