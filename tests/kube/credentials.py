"""Certificates, keys and tokens of a test cluster; the certificates by openssl."""

import base64
import json
import secrets
import subprocess
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

ADMIN = "admin"
_GROUPS = {
    ADMIN: "system:masters",
    "kwok": "system:masters",
    "system:kube-scheduler": "",
    "system:kube-controller-manager": "",
    "nobody": "",
}
"""Users with a token, and their groups; `nobody` may do nothing at all."""

_NAMES = "subjectAltName=DNS:localhost,DNS:kubernetes.default.svc,IP:127.0.0.1,IP:10.96.0.1"
_DAYS = "30"


@dataclass(frozen=True)
class Credentials:
    """What the parts of one cluster know each other by."""

    folder: Path
    openssl: Path
    tokens: Mapping[str, str]

    @property
    def ca_file(self) -> Path:
        """Certificate of the cluster's own authority."""
        return self.folder / "ca.crt"

    @property
    def token_file(self) -> Path:
        """The API server's table of tokens."""
        return self.folder / "tokens.csv"

    def file(self, name: str, kind: str) -> Path:
        """`crt` or `key` of `ca`, `server` or `admin`, `pub` or `key` of `service-accounts`."""
        return self.folder / f"{name}.{kind}"

    def kubeconfig(self, url: str, user: str = ADMIN) -> Path:
        """A kubeconfig file with a user's token."""
        return self._write(f"{user.replace(':', '-')}.conf", url, {"token": self.tokens[user]})

    def certificate_kubeconfig(self, url: str) -> Path:
        """A kubeconfig file with the administrator's certificate in it."""
        inside = {
            f"client-{what}-data": base64.b64encode(self.file(ADMIN, kind).read_bytes()).decode()
            for what, kind in (("certificate", "crt"), ("key", "key"))
        }
        return self._write("admin-certificate.conf", url, inside)

    def _write(self, name: str, url: str, user: Mapping[str, str]) -> Path:
        path = self.folder / name
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "test",
            "clusters": [
                {
                    "name": "test",
                    "cluster": {"server": url, "certificate-authority": self.ca_file.name},
                }
            ],
            "users": [{"name": "user", "user": dict(user)}],
            "contexts": [{"name": "test", "context": {"cluster": "test", "user": "user"}}],
        }
        # Whole at every moment: others read it while it is written anew.
        unfinished = self.folder / f".{name}.{threading.get_ident()}"
        unfinished.write_text(json.dumps(document), encoding="utf-8")
        unfinished.chmod(0o600)
        return unfinished.replace(path)


def make_credentials(folder: Path, openssl: Path) -> Credentials:
    """Make everything anew in an empty folder."""
    made = Credentials(folder, openssl, {user: secrets.token_urlsafe(32) for user in _GROUPS})
    _key(made, "ca")
    subject = ("-subj", "/CN=dure-test-ca", "-days", _DAYS)
    _openssl(made, "req", "-x509", "-new", "-key", "ca.key", "-out", "ca.crt", *subject)
    _certificate(made, "server", "/CN=kube-apiserver", f"{_NAMES}\nextendedKeyUsage=serverAuth")
    _certificate(made, ADMIN, "/O=system:masters/CN=admin", "extendedKeyUsage=clientAuth")
    _key(made, "service-accounts")
    public = ("-in", "service-accounts.key", "-pubout", "-out", "service-accounts.pub")
    _openssl(made, "pkey", *public)
    lines = [
        f'{token},{user},{user},"{_GROUPS[user]}"' if _GROUPS[user] else f"{token},{user},{user}"
        for user, token in made.tokens.items()
    ]
    made.token_file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    made.token_file.chmod(0o600)
    return made


def _key(made: Credentials, name: str) -> None:
    curve = ("-pkeyopt", "ec_paramgen_curve:P-256")
    _openssl(made, "genpkey", "-algorithm", "EC", *curve, "-out", f"{name}.key")


def _certificate(made: Credentials, name: str, subject: str, extensions: str) -> None:
    _key(made, name)
    made.file(name, "ext").write_text(extensions, encoding="utf-8")
    request = ("-key", f"{name}.key", "-out", f"{name}.csr", "-subj", subject)
    _openssl(made, "req", "-new", *request)
    by = ("-CA", "ca.crt", "-CAkey", "ca.key", "-CAcreateserial", "-days", _DAYS)
    files = ("-in", f"{name}.csr", "-out", f"{name}.crt", "-extfile", f"{name}.ext")
    _openssl(made, "x509", "-req", *files, *by)


def _openssl(made: Credentials, *words: str) -> None:
    done = subprocess.run(
        [str(made.openssl), *words], cwd=made.folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"openssl {words[0]} failed: {done.stderr}"
