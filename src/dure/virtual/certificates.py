"""Keys and certificates of a virtual cluster: an authority that stays, the rest made at each start.

Files are in PEM and for their owner alone.
"""

import datetime
import ipaddress
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

_AUTHORITY_DAYS = 3650
_DAYS = 365
"""Of what is made at each start."""
_SLACK = datetime.timedelta(minutes=5)
"""Clocks of others may be behind."""
Key = ec.EllipticCurvePrivateKey


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, as files."""

    certificate: Path
    key: Path


class Authority:
    """Signs what the parts of one virtual cluster know each other by."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self.file = folder / "ca.crt"
        key_file = folder / "ca.key"
        if not key_file.exists() or not self.file.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            name = _name("dure-virtual-cluster", "")
            made = _builder(name, name, key.public_key(), _AUTHORITY_DAYS)
            made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            made = made.add_extension(_usage(signs=True), critical=True)
            _write(key_file, _key_bytes(key))
            _write(self.file, _bytes(made.sign(key, hashes.SHA256())))
        loaded = serialization.load_pem_private_key(key_file.read_bytes(), None)
        assert isinstance(loaded, ec.EllipticCurvePrivateKey)
        self._key: Key = loaded
        self._certificate = x509.load_pem_x509_certificate(self.file.read_bytes())

    def server(self, name: str, hosts: Iterable[str]) -> Pair:
        """For one who is spoken to under these names and addresses; it may also speak itself."""
        names = x509.SubjectAlternativeName([_host(host) for host in dict.fromkeys(hosts)])
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        return self._signed(name, _name(name, ""), usages, names)

    def client(self, name: str, user: str, group: str = "") -> Pair:
        """For one who speaks to others as a user."""
        return self._signed(name, _name(user, group), [ExtendedKeyUsageOID.CLIENT_AUTH], None)

    def signing_key(self, name: str) -> Pair:
        """A key that stays, and its public half in place of a certificate."""
        pair = self._pair(name, "pub")
        if not pair.key.exists():
            key = ec.generate_private_key(ec.SECP256R1())
            _write(pair.key, _key_bytes(key))
            public = key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
            _write(pair.certificate, public)
        return pair

    def _signed(
        self,
        name: str,
        subject: x509.Name,
        usages: list[x509.ObjectIdentifier],
        hosts: x509.SubjectAlternativeName | None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        made = _builder(subject, self._certificate.subject, key.public_key(), _DAYS)
        made = made.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        made = made.add_extension(_usage(signs=False), critical=True)
        authority = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = made.add_extension(authority, critical=False)
        if hosts is not None:
            made = made.add_extension(hosts, critical=False)
        pair = self._pair(name, "crt")
        _write(pair.key, _key_bytes(key))
        _write(pair.certificate, _bytes(made.sign(self._key, hashes.SHA256())))
        return pair

    def _pair(self, name: str, ending: str) -> Pair:
        return Pair(self._folder / f"{name}.{ending}", self._folder / f"{name}.key")


def _name(user: str, group: str) -> x509.Name:
    parts = [x509.NameAttribute(NameOID.COMMON_NAME, user)]
    if group:
        parts.insert(0, x509.NameAttribute(NameOID.ORGANIZATION_NAME, group))
    return x509.Name(parts)


def _builder(
    subject: x509.Name, issuer: x509.Name, public: ec.EllipticCurvePublicKey, days: int
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    identifier = x509.SubjectKeyIdentifier.from_public_key(public)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SLACK)
        .not_valid_after(now + datetime.timedelta(days=days))
        .add_extension(identifier, critical=False)
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=signs,
        encipher_only=False,
        decipher_only=False,
    )


def _host(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return x509.DNSName(host)


def _key_bytes(key: Key) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )


def _bytes(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)


def _write(path: Path, content: bytes) -> None:
    """Whole at every moment, and never readable by others."""
    unfinished = path.with_name(f".{path.name}.part")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
    unfinished.replace(path)
