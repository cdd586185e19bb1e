"""Links over TLS: the server shows its certificate, and may ask members for theirs."""

import asyncio
import datetime
import ipaddress
from dataclasses import dataclass, replace
from pathlib import Path

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from dure.domain.fleet.protocol.link import Hello
from dure.domain.ids import ClusterId
from dure.server.links.service import SERVICE
from dure.server.settings import Listening
from dure.wire.codec import from_member, heard_from_centre
from dure.wire.v1 import member_pb2 as pb
from tests.server.centres import QUICK, world
from tests.stores.helpers import asynchronous


@dataclass(frozen=True)
class Pair:
    """A certificate and its key, in files."""

    cert: Path
    key: Path


def _self_signed(folder: Path, name: str) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), True)
        .sign(key, hashes.SHA256())
    )
    pair = Pair(folder / f"{name}.pem", folder / f"{name}.key")
    pair.cert.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    pair.key.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return pair


async def _first_word(port: int, secret: str, credentials: grpc.ChannelCredentials) -> object:
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", credentials) as channel:
        call = channel.stream_stream(
            f"/{SERVICE}/Link",
            request_serializer=pb.FromMember.SerializeToString,
            response_deserializer=pb.ToMember.FromString,
        )(metadata=(("authorization", f"Bearer {secret}"),))
        async with asyncio.timeout(30):
            await call.write(from_member(Hello(ClusterId("seoul"), "process", "one", "test")))
            return heard_from_centre(await call.read())


@asynchronous
async def test_a_member_must_show_a_certificate_where_one_is_asked_for(tmp_path: Path) -> None:
    server, member = _self_signed(tmp_path, "server"), _self_signed(tmp_path, "member")
    listening = Listening(
        grpc_port=0,
        tls_cert=str(server.cert),
        tls_key=str(server.key),
        tls_client_ca=str(member.cert),
    )
    settings = replace(QUICK, listening=listening)
    assert settings.listening.url.startswith("https://")
    root = server.cert.read_bytes()
    async with world(f"sqlite:///{tmp_path / 'state.db'}", settings=settings) as centre:
        known = grpc.ssl_channel_credentials(
            root, member.key.read_bytes(), member.cert.read_bytes()
        )
        secret = centre.secrets["seoul"]
        assert type(await _first_word(centre.port, secret, known)).__name__ == "Welcome"
        nobody = grpc.ssl_channel_credentials(root)
        stranger = grpc.ssl_channel_credentials(member.cert.read_bytes())
        for credentials in (nobody, stranger):
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await _first_word(centre.port, secret, credentials)
            assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
