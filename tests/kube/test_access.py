"""Access to clusters: which file counts, what is merged, and what is refused in which words."""

import asyncio
import base64
import json
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from dure.domain.errors import InputError
from dure.kube.access import Access, load_access
from dure.kube.errors import KubeForbiddenError
from dure.kube.tokens import FileToken, PluginToken, StatedToken

CA = b"-----BEGIN CERTIFICATE-----\n"


def config(
    *,
    name: str = "one",
    server: str = "https://one.example:6443",
    cluster: Mapping[str, object] | None = None,
    user: Mapping[str, object] | None = None,
    current: str | None = None,
) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name if current is None else current,
        "clusters": [{"name": name, "cluster": {"server": server, **(cluster or {})}}],
        "users": [{"name": name, "user": dict(user or {"token": f"token-{name}"})}],
        "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
    }


def write(path: Path, document: Mapping[str, Any]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def token_of(access: Access) -> str:
    assert access.tokens is not None
    return asyncio.run(access.tokens.token())


def test_the_current_context_counts_unless_another_is_named(tmp_path: Path) -> None:
    document = config()
    other = config(name="two", server="https://two.example")
    for part in ("clusters", "users", "contexts"):
        document[part] += other[part]
    document["contexts"][1]["context"]["namespace"] = "team"
    path = write(tmp_path / "config", document)
    assert load_access(path).url == "https://one.example:6443"
    assert load_access(path).namespace == "default"
    named = load_access(path, "two")
    assert (named.url, named.namespace, token_of(named)) == (
        "https://two.example",
        "team",
        "token-two",
    )


def test_kubeconfig_variable_merges_files_and_the_first_to_name_something_wins(
    tmp_path: Path,
) -> None:
    first = write(tmp_path / "a" / "config", config(current=""))
    twice = config(name="two") | {"users": [{"name": "one", "user": {"token": "later"}}]}
    twice["contexts"][0]["context"]["user"] = "one"
    second = write(tmp_path / "b" / "config", twice)
    variable = {"KUBECONFIG": f"{first}:{tmp_path / 'missing'}:{second}"}
    found = load_access(environment=variable)
    assert token_of(found) == "token-one"  # context two of the second file, user of the first
    assert load_access(context="one", environment=variable).url == "https://one.example:6443"


def test_paths_are_relative_to_the_file_they_are_in(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "ca.crt").write_bytes(CA)
    (tmp_path / "b" / "token").write_text("from-file\n")
    first = write(tmp_path / "a" / "config", config(name="other"))
    second = write(
        tmp_path / "b" / "config",
        config(cluster={"certificate-authority": "ca.crt"}, user={"tokenFile": "token"}),
    )
    found = load_access(context="one", environment={"KUBECONFIG": f"{first}:{second}"})
    assert found.authority == CA
    assert token_of(found) == "from-file"


def test_home_comes_before_the_own_pod(tmp_path: Path) -> None:
    write(tmp_path / ".kube" / "config", config())
    account = pod_account(tmp_path)
    pod = {"HOME": str(tmp_path), "KUBERNETES_SERVICE_HOST": "10.0.0.1"}
    assert load_access(environment=pod, pod_account=account).url == "https://one.example:6443"


def pod_account(folder: Path) -> Path:
    account = folder / "account"
    account.mkdir()
    (account / "token").write_text("first")
    (account / "ca.crt").write_bytes(CA)
    (account / "namespace").write_text("dure-system")
    return account


@pytest.mark.parametrize(
    ("host", "url"),
    [("10.0.0.1", "https://10.0.0.1:6443"), ("fd00::1", "https://[fd00::1]:6443")],
)
def test_a_pod_uses_its_own_account(tmp_path: Path, host: str, url: str) -> None:
    found = load_access(
        environment={
            "HOME": str(tmp_path / "none"),
            "KUBERNETES_SERVICE_HOST": host,
            "KUBERNETES_SERVICE_PORT": "6443",
        },
        pod_account=pod_account(tmp_path),
    )
    assert (found.url, found.namespace, found.authority) == (url, "dure-system", CA)
    assert isinstance(found.tokens, FileToken)


def test_a_token_file_is_read_again_after_a_refusal(tmp_path: Path) -> None:
    path = tmp_path / "token"
    path.write_text("first")
    source = FileToken(path)
    assert asyncio.run(source.token()) == "first"
    path.write_text("second")
    assert asyncio.run(source.token()) == "first"
    assert source.forget()
    assert asyncio.run(source.token()) == "second"


def test_a_stated_token_is_not_shown_and_has_no_other() -> None:
    source = StatedToken("secret-words")
    assert "secret" not in repr(source)
    assert not source.forget()


def plugin(folder: Path, script: str) -> Path:
    program = folder / "plugin"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return program


def test_a_plugin_is_asked_once_until_its_token_ends_or_is_refused(tmp_path: Path) -> None:
    plugin(
        tmp_path,
        'echo x >> "$COUNT"; n=$(wc -l < "$COUNT" | tr -d " ")\n'
        'printf \'{"status": {"token": "%s-%s", "expirationTimestamp": "%s"}}\' '
        '"$1" "$n" "2999-01-01T00:00:00Z"',
    )
    exec_user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": "./plugin",
            "args": ["word"],
            "env": [{"name": "COUNT", "value": str(tmp_path / "count")}],
        }
    }
    found = load_access(write(tmp_path / "config", config(user=exec_user)))
    assert found.tokens is not None
    assert [token_of(found), token_of(found)] == ["word-1", "word-1"]
    assert found.tokens.forget()
    assert token_of(found) == "word-2"


def test_a_plugin_whose_token_has_ended_is_asked_again(tmp_path: Path) -> None:
    program = plugin(
        tmp_path,
        f"echo x >> {tmp_path}/count\n"
        'echo \'{"status": {"token": "t", "expirationTimestamp": "2020-01-01T00:00:00Z"}}\'',
    )
    source = PluginToken((str(program),), {}, "client.authentication.k8s.io/v1")
    for _ in range(2):
        asyncio.run(source.token())
    assert (tmp_path / "count").read_text().count("x") == 2


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("echo no luck >&2; exit 3", "no luck"),
        ("echo '{}'", "printed no token"),
        ("echo 'not json'", "printed no token"),
    ],
)
def test_a_plugin_that_fails_says_why(tmp_path: Path, script: str, words: str) -> None:
    program = plugin(tmp_path, script)
    source = PluginToken((str(program),), {}, "client.authentication.k8s.io/v1")
    with pytest.raises(KubeForbiddenError, match=words):
        asyncio.run(source.token())


def test_a_missing_plugin_names_its_hint() -> None:
    source = PluginToken(("no-such-plugin",), {}, "v1", hint="install the cloud's tools")
    with pytest.raises(KubeForbiddenError, match="install the cloud's tools"):
        asyncio.run(source.token())


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (config(current="other"), "there is no context 'other'; name one of one"),
        (config(current=""), "no context is current; name one of one"),
        (config(server="one.example"), "'one.example' is not the address"),
        (config(user={"client-certificate-data": base64.b64encode(CA).decode()}), "needs its key"),
        (config(cluster={"certificate-authority-data": "%%"}), "certificate-authority-data: this"),
        (config(cluster={"certificate-authority": "none.crt"}), "none.crt cannot be read"),
        (config() | {"clusters": "text"}, "clusters: "),
        (config() | {"clusters": None}, "there is no cluster 'one'; name one of none"),
        (config(user={"token": ["a"]}), "users.0.user.token: "),
    ],
)
def test_what_cannot_be_used_is_refused_with_file_and_words(
    tmp_path: Path, document: Mapping[str, Any], words: str
) -> None:
    path = write(tmp_path / "config", document)
    with pytest.raises(InputError) as refusal:
        load_access(path)
    assert words in str(refusal.value)
    assert str(path) in str(refusal.value)


def test_a_refusal_shows_no_secret(tmp_path: Path) -> None:
    path = write(tmp_path / "config", config(user={"token": {"hidden-words": 1}}))
    with pytest.raises(InputError) as refusal:
        load_access(path)
    assert "hidden-words" not in str(refusal.value)
    assert refusal.value.__cause__ is None


def test_certificates_that_are_none_are_refused(tmp_path: Path) -> None:
    data = base64.b64encode(b"no certificate").decode()
    path = write(tmp_path / "config", config(cluster={"certificate-authority-data": data}))
    with pytest.raises(InputError, match="cannot be used"):
        load_access(path).tls()


def test_without_any_way_in_the_remedy_is_said(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="KUBECONFIG"):
        load_access(environment={"HOME": str(tmp_path)})
    with pytest.raises(InputError, match="there is no such file"):
        load_access(tmp_path / "none")
