import socket
from dataclasses import replace
from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.server.options import (
    ServerOptions,
    address_of,
    check,
    default_data,
    read_settings,
    with_settings,
)
from dure.server.settings import Listening, ServerSettings


def test_every_default_of_the_server_is_what_the_documentation_says() -> None:
    settings = ServerSettings()
    assert (settings.lease_ttl_s, settings.lost_after_s) == (5.0, 30.0)
    assert (settings.silence_s, settings.ping_s) == (6.0, 2.0)
    assert (settings.fence_margin, settings.fence_margin_least_s) == (0.25, 10.0)
    assert (settings.round_s, settings.idle_round_s, settings.poll_s) == (0.2, 5.0, 1.0)
    assert settings.move_scan_s == 3600.0
    assert settings.prune_s == 600.0
    assert (settings.gone_kept_s, settings.gone_kept) == (300.0, 1000)
    assert settings.listening.url == "http://127.0.0.1:7600"
    assert (settings.listening.grpc_host, settings.listening.grpc_port) == ("127.0.0.1", 7601)


def _options(folder: Path, **listening: str) -> ServerOptions:
    settings = ServerSettings(listening=replace(Listening(), **listening))  # type: ignore[arg-type]
    return ServerOptions(folder, settings=settings)


def test_without_tls_only_this_machine_may_reach_it(tmp_path: Path) -> None:
    check(_options(tmp_path))
    check(_options(tmp_path, rest_host="localhost", grpc_host="[::1]"))
    open_to_all = _options(tmp_path, grpc_host="0.0.0.0")
    with pytest.raises(InputError, match="can be reached from other machines and there is no TLS"):
        check(open_to_all)
    check(replace(open_to_all, insecure=True))


def test_tls_needs_files_that_are_there(tmp_path: Path) -> None:
    file = tmp_path / "pem"
    file.write_text("", encoding="utf-8")
    check(_options(tmp_path, tls_cert=str(file), tls_key=str(file), rest_host="0.0.0.0"))
    with pytest.raises(InputError, match="needs a certificate and its key"):
        check(_options(tmp_path, tls_cert=str(file)))
    with pytest.raises(InputError, match="cannot be read"):
        check(_options(tmp_path, tls_cert=str(file), tls_key=str(tmp_path / "none")))
    with pytest.raises(InputError, match="only be asked for over TLS"):
        check(_options(tmp_path, tls_client_ca=str(file)))


def test_settings_from_a_file_are_checked(tmp_path: Path) -> None:
    file = tmp_path / "server.yaml"
    file.write_text("lease-ttl-s: 2\nrest-port: 7000\n", encoding="utf-8")
    settings = with_settings(ServerSettings(), read_settings(file), str(file))
    assert (settings.lease_ttl_s, settings.listening.rest_port) == (2.0, 7000)
    for text, says in (
        ("lease-ttl-s: -1", "lease_ttl_s: -1 is not above zero"),
        ("lease-ttl-s: soon", "'soon' is no float"),
        ("colour: red", "colour: is no setting; use one of advertise-url, drain-s"),
        ("[1]", "is no mapping"),
        ("a: [", "cannot be read"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises(InputError) as refused:
            with_settings(ServerSettings(), read_settings(file), str(file))
        assert says in str(refused.value)


def test_other_servers_are_told_an_address_that_they_can_reach() -> None:
    everywhere = Listening(rest_host="0.0.0.0", rest_port=1)
    assert everywhere.url == f"http://{socket.gethostname()}:1"
    assert replace(everywhere, advertise_url="https://a").url == "https://a"


def test_addresses_and_folders() -> None:
    assert address_of("0.0.0.0:80", "--listen") == ("0.0.0.0", 80)
    assert address_of("[::1]:80", "--listen") == ("[::1]", 80)
    for wrong in ("80", "host:", "host:http", "host:70000"):
        with pytest.raises(InputError, match="write HOST:PORT"):
            address_of(wrong, "--listen")
    assert default_data({"XDG_STATE_HOME": "/s"}) == Path("/s/dure/server")
