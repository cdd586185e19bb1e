"""The control plane of a dedicated virtual cluster: etcd, API server, scheduler and controllers.

They are started here, die with this process and are started again when one of them dies. Nothing
but the API server listens beyond loopback, and everybody shows a certificate.
"""

import asyncio
import json
import logging
import os
import socket
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dure.domain.errors import DureError
from dure.kube.access import load_access
from dure.kube.client import KubeClient
from dure.kube.resources import NAMESPACES
from dure.kube.transport import Patience
from dure.virtual.certificates import Authority, Pair
from dure.virtual.options import ManagedPlane
from dure.virtual.programs import Program, find_programs

_log = logging.getLogger("dure.virtual")

LOOPBACK = "127.0.0.1"
ADMIN = "admin.kubeconfig"
_SERVICES = "10.96.0.0/16"
_SERVICE_ADDRESS = "10.96.0.1"
_READY_S = 0.5
"""Between two looks whether the API server answers."""
_FOREVER_S = 10 * 365 * 86400
"""Pods stay on nodes of which nothing is heard: their work goes on where it runs."""
_TOKENS_S = 120
"""How long the API server believes what it was told of a token."""


class Plane:
    """One for each managed virtual cluster."""

    def __init__(self, folder: Path, options: ManagedPlane, door_port: int) -> None:
        self._folder = folder
        self._options = options
        self._door_port = door_port
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        self._programs = find_programs(options.programs)
        self.authority = Authority(folder / "pki")
        self.url = f"https://{_spoken(options.host)}:{options.port}"
        self.message = ""
        """What was last wrong."""
        self._etcd_port, self._peer_port = free_port(), free_port()
        self._parts = self._make()

    @property
    def kubeconfig(self) -> Path:
        """Of whoever may do anything."""
        return self._folder / ADMIN

    @property
    def parts(self) -> Mapping[str, Program]:
        """Its programs by name."""
        return self._parts

    async def run(self) -> None:
        """Until cancelled; then all programs have ended, the API server before etcd."""
        etcd = asyncio.create_task(self._parts["etcd"].run(self._died))
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._parts["kube-apiserver"].run(self._died))
                tasks.create_task(self._managers())
        finally:
            etcd.cancel()
            await asyncio.gather(etcd, return_exceptions=True)

    async def _managers(self) -> None:
        await self.ready()
        async with asyncio.TaskGroup() as tasks:
            for name in ("kube-controller-manager", "kube-scheduler"):
                tasks.create_task(self._parts[name].run(self._died))

    async def ready(self) -> None:
        """Returns when the API server answers."""
        access = load_access(self.kubeconfig)
        async with KubeClient(access, Patience(retry_for_s=0.0)) as client:
            while True:
                try:
                    await client.get(NAMESPACES, "kube-system")
                    return
                except DureError as error:
                    _log.debug("not ready yet: %s", error)
                await asyncio.sleep(_READY_S)

    def _died(self, why: str) -> None:
        _log.warning("%s", why)
        self.message = why

    # Its parts

    def _make(self) -> dict[str, Program]:
        user = _User(self._folder, self.url, self.authority)
        user.write(ADMIN, self.authority.client("admin", "dure-admin", "system:masters"))
        parts = [self._etcd(), self._api_server()]
        for name in ("kube-controller-manager", "kube-scheduler"):
            pair = self.authority.client(name, f"system:{name}")
            config = user.write(f"{name}.kubeconfig", pair)
            parts.append(self._manager(name, config))
        return {part.name: part for part in parts}

    def _program(self, name: str, *words: str) -> Program:
        return Program(name, (str(self._programs[name]), *words), self._folder)

    def _etcd(self) -> Program:
        pair = self.authority.server("etcd", [LOOPBACK, "localhost"])
        client = f"https://{LOOPBACK}:{self._etcd_port}"
        peer = f"https://{LOOPBACK}:{self._peer_port}"
        return self._program(
            "etcd",
            "--name=only",
            f"--data-dir={self._folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=only={peer}",
            "--client-cert-auth",
            f"--trusted-ca-file={self.authority.file}",
            f"--cert-file={pair.certificate}",
            f"--key-file={pair.key}",
            "--peer-client-cert-auth",
            f"--peer-trusted-ca-file={self.authority.file}",
            f"--peer-cert-file={pair.certificate}",
            f"--peer-key-file={pair.key}",
            "--auto-compaction-mode=periodic",
            "--auto-compaction-retention=1h",
            "--log-level=warn",
        )

    def _api_server(self) -> Program:
        options, sign = self._options, self.authority
        hosts = [options.host, LOOPBACK, "localhost", _SERVICE_ADDRESS, *options.names]
        hosts += ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
        serving = sign.server("kube-apiserver", hosts)
        to_etcd = sign.client("kube-apiserver-etcd", "kube-apiserver")
        to_kubelet = sign.client("kube-apiserver-kubelet", "kube-apiserver")
        accounts = sign.signing_key("service-accounts")
        asking = self._token_webhook(to_kubelet)
        return self._program(
            "kube-apiserver",
            f"--etcd-servers=https://{LOOPBACK}:{self._etcd_port}",
            f"--etcd-cafile={sign.file}",
            f"--etcd-certfile={to_etcd.certificate}",
            f"--etcd-keyfile={to_etcd.key}",
            f"--bind-address={options.host.strip('[]')}",
            f"--secure-port={options.port}",
            "--endpoint-reconciler-type=none",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            f"--client-ca-file={sign.file}",
            f"--authentication-token-webhook-config-file={asking}",
            "--authentication-token-webhook-version=v1",
            f"--authentication-token-webhook-cache-ttl={_TOKENS_S}s",
            "--anonymous-auth=false",
            "--authorization-mode=RBAC",
            # Pods that ask for a device tolerate the taint of nodes that have it, and only they.
            "--enable-admission-plugins=ExtendedResourceToleration",
            f"--default-not-ready-toleration-seconds={_FOREVER_S}",
            f"--default-unreachable-toleration-seconds={_FOREVER_S}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={accounts.certificate}",
            f"--service-account-signing-key-file={accounts.key}",
            f"--service-cluster-ip-range={_SERVICES}",
            f"--kubelet-client-certificate={to_kubelet.certificate}",
            f"--kubelet-client-key={to_kubelet.key}",
            f"--kubelet-certificate-authority={sign.file}",
            "--kubelet-preferred-address-types=InternalIP",
        )

    def _token_webhook(self, pair: Pair) -> Path:
        """Where the API server asks who bears a token: here, and here at the centre."""
        url = f"https://{LOOPBACK}:{self._door_port}/authenticate"
        return _User(self._folder, url, self.authority).write("tokens.kubeconfig", pair)

    def _manager(self, name: str, config: Path) -> Program:
        serving = self.authority.server(f"{name}-serving", [LOOPBACK])
        words = [
            f"--kubeconfig={config}",
            f"--bind-address={LOOPBACK}",
            f"--secure-port={free_port()}",
            f"--tls-cert-file={serving.certificate}",
            f"--tls-private-key-file={serving.key}",
            "--leader-elect=false",
        ]
        if name == "kube-controller-manager":
            accounts = self.authority.signing_key("service-accounts")
            words += [
                f"--service-account-private-key-file={accounts.key}",
                f"--root-ca-file={self.authority.file}",
                "--use-service-account-credentials",
            ]
        return self._program(name, *words)


class _User:
    """Writes kubeconfig files."""

    def __init__(self, folder: Path, url: str, authority: Authority) -> None:
        self._folder = folder
        self._url = url
        self._authority = authority

    def write(self, name: str, pair: Pair) -> Path:
        """For one who shows a certificate."""
        user = {"client-certificate": str(pair.certificate), "client-key": str(pair.key)}
        cluster = {"server": self._url, "certificate-authority": str(self._authority.file)}
        path = self._folder / name
        _write_private(path, json.dumps(kubeconfig("virtual", cluster, user), indent=1))
        return path


def kubeconfig(
    name: str, cluster: Mapping[str, Any], user: Mapping[str, Any], namespace: str = ""
) -> dict[str, Any]:
    """A kubeconfig with one context."""
    context = {"cluster": name, "user": name} | ({"namespace": namespace} if namespace else {})
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": name,
        "clusters": [{"name": name, "cluster": dict(cluster)}],
        "users": [{"name": name, "user": dict(user)}],
        "contexts": [{"name": name, "context": context}],
    }


def free_port(host: str = LOOPBACK, choose: Callable[[], int] = lambda: 0) -> int:
    """A port on which nobody listens now."""
    with socket.socket() as probe:
        probe.bind((host, choose()))
        return int(probe.getsockname()[1])


def _spoken(host: str) -> str:
    """An address that people can use, where one listens at all of them."""
    return LOOPBACK if host in ("0.0.0.0", "[::]", "::") else host


def _write_private(path: Path, text: str) -> None:
    unfinished = path.with_name(f".{path.name}.part")
    unfinished.unlink(missing_ok=True)
    descriptor = os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    unfinished.replace(path)
