"""A real Kubernetes control plane on loopback, with nodes on paper; each part can be killed."""

import shutil
import ssl
import tempfile
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx

from tests.kube.credentials import ADMIN, make_credentials
from tests.kube.ports import free_port
from tests.kube.programs import Program, kube_programs, wait_until

HOST = "127.0.0.1"
PAPER = Path(__file__).with_name("kwok.yaml")
_REQUEST_S = 30.0
_POD_RESOURCES = {"cpu": "32", "memory": "256Gi", "pods": "110"}


class KubeCluster:
    """etcd, API servers, controller manager, scheduler and KWOK, of one or several each.

    With one API server `url` is its own; with several it is that of a haproxy before them.
    """

    def __init__(self, *, etcd_members: int = 1, api_servers: int = 1) -> None:
        self._programs = kube_programs()
        self.folder = Path(tempfile.mkdtemp(prefix="dure-kube-"))
        self.credentials = make_credentials(self.folder, self._programs["openssl"])
        self.pod_log_file = self.folder / "pods.log"
        """What every container on paper is said to have printed, in the format of the CRI."""
        self.pod_log_file.touch()
        self.etcd_urls = [f"http://{HOST}:{free_port()}" for _ in range(etcd_members)]
        self._peer_urls = [f"http://{HOST}:{free_port()}" for _ in range(etcd_members)]
        self._ports = [free_port() for _ in range(api_servers)]
        self._door_port = free_port() if api_servers > 1 else self._ports[0]
        self._health = {"kube-controller-manager": free_port(), "kube-scheduler": free_port()}
        self._kubelet_port = free_port()
        trust = ssl.create_default_context(cafile=str(self.credentials.ca_file))
        self._http = httpx.Client(verify=trust, timeout=_REQUEST_S)
        # Managers make a certificate of their own for their health port.
        self._health_http = httpx.Client(verify=False, timeout=_REQUEST_S)

        self.etcd = [self._etcd(number) for number in range(etcd_members)]
        self.api_servers = [self._api_server(number) for number in range(api_servers)]
        self.doors = [self._haproxy()] if api_servers > 1 else []
        self.controller_manager = self._controller_manager()
        self.scheduler = self._scheduler()
        self.kwok = self._kwok()

    # What a client needs

    @property
    def url(self) -> str:
        """Where clients find it."""
        return f"https://{HOST}:{self._door_port}"

    @property
    def server_urls(self) -> list[str]:
        """Each API server by itself."""
        return [f"https://{HOST}:{port}" for port in self._ports]

    @property
    def token(self) -> str:
        """Of the administrator."""
        return self.credentials.tokens[ADMIN]

    @property
    def ca_file(self) -> Path:
        """The authority that signed the API servers' certificate."""
        return self.credentials.ca_file

    @property
    def kubeconfig(self) -> Path:
        """A kubeconfig file of the administrator."""
        return self.credentials.kubeconfig(self.url)

    def request(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, **headers: str
    ) -> Any:
        """One answer of the API as the administrator; fails where it is an error."""
        response = self._http.request(
            method,
            self.url + path,
            json=body,
            headers={"authorization": f"Bearer {self.token}", **headers},
        )
        assert response.is_success, f"{method} {path}: {response.status_code} {response.text}"
        return response.json()

    def has(self, path: str) -> bool:
        """Whether there is such an object, as far as anybody answers."""
        return self._answers(self.url + path)

    def forget_history(self) -> None:
        """Let nobody know any more what was before now: as after a night, a moment later."""
        revision = self._etcd_call("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
        self._etcd_call("/v3/kv/compaction", {"revision": revision, "physical": True})
        for server in self.api_servers:
            server.kill()
        self.start()

    def _etcd_call(self, path: str, body: Mapping[str, Any]) -> Any:
        response = self._http.post(self.etcd_urls[0] + path, json=body)
        assert response.is_success, f"etcd {path}: {response.status_code} {response.text}"
        return response.json()

    # Nodes on paper

    def add_nodes(
        self,
        *names: str,
        resources: Mapping[str, str] | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> None:
        """Create nodes with what they have beside CPU, memory and room for Pods; wait for them."""
        has = {**_POD_RESOURCES, **(resources or {})}
        for name in names:
            self.request("POST", "/api/v1/nodes", _node(name, has, labels or {}))
        wait_until(f"nodes {names} are ready", lambda: set(names) <= self._ready_nodes())

    def _ready_nodes(self) -> set[str]:
        nodes = self.request("GET", "/api/v1/nodes")["items"]
        return {node["metadata"]["name"] for node in nodes if _is_ready(node)}

    # Its life

    @property
    def programs(self) -> Iterator[Program]:
        """All of them, in the order they are started."""
        yield from self.etcd
        yield from self.api_servers
        yield from self.doors
        yield from (self.controller_manager, self.scheduler, self.kwok)

    def launch(self) -> None:
        """Start etcd and API servers without a wait, so that several clusters start at once."""
        for program in (*self.etcd, *self.api_servers, *self.doors):
            program.start()

    def start(self) -> None:
        """Start what does not run, also after parts were killed, and wait until all answer."""
        self.launch()
        for program, url in zip(self.api_servers, self.server_urls, strict=True):
            self._await(program, f"{url}/readyz")
        if self.doors:
            self._await(self.doors[0], f"{self.url}/readyz")
        for program in (self.controller_manager, self.scheduler, self.kwok):
            program.start()
        for program in (self.controller_manager, self.scheduler):
            health = f"https://{HOST}:{self._health[program.name]}/healthz"
            self._await(program, health, self._health_http)
        self._await(self.kwok, f"http://{HOST}:{self._kubelet_port}/healthz")
        account = "/api/v1/namespaces/default/serviceaccounts/default"
        wait_until("the first service account is there", lambda: self.has(account))

    def memory_bytes(self) -> dict[str, int]:
        """What each program that runs holds."""
        return {program.name: program.rss_bytes() for program in self.programs if program.runs}

    def close(self) -> None:
        """End everything and remove its folder."""
        for program in reversed(list(self.programs)):
            program.kill()
        self._http.close()
        self._health_http.close()
        shutil.rmtree(self.folder)

    def _await(self, program: Program, url: str, http: httpx.Client | None = None) -> None:
        def answers() -> bool:
            return program.pid > 0 and self._answers(url, http)

        wait_until(f"{program.name} answers at {url}", answers)

    def _answers(self, url: str, http: httpx.Client | None = None) -> bool:
        headers = {"authorization": f"Bearer {self.token}"}
        try:
            return (http or self._http).get(url, headers=headers).is_success
        except httpx.HTTPError:
            return False

    # Its parts

    def _program(self, name: str, *words: object, number: int | None = None) -> Program:
        own = name if number is None else f"{name}-{number}"
        return Program(own, (self._programs[name], *words), self.folder)

    def _etcd(self, number: int) -> Program:
        peers = ",".join(f"member-{index}={url}" for index, url in enumerate(self._peer_urls))
        client, peer = self.etcd_urls[number], self._peer_urls[number]
        return self._program(
            "etcd",
            f"--name=member-{number}",
            f"--data-dir={self.folder / f'etcd-{number}'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster={peers}",
            "--unsafe-no-fsync",  # a killed process loses nothing by it, a dead machine would
            "--log-level=warn",
            number=number,
        )

    def _api_server(self, number: int) -> Program:
        own = self.credentials
        return self._program(
            "kube-apiserver",
            f"--etcd-servers={','.join(self.etcd_urls)}",
            f"--bind-address={HOST}",
            f"--advertise-address={HOST}",
            f"--secure-port={self._ports[number]}",
            "--endpoint-reconciler-type=none",  # loopback cannot be an endpoint of a service
            f"--tls-cert-file={own.file('server', 'crt')}",
            f"--tls-private-key-file={own.file('server', 'key')}",
            f"--client-ca-file={own.ca_file}",
            f"--token-auth-file={own.token_file}",
            "--authorization-mode=RBAC",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={own.file('service-accounts', 'pub')}",
            f"--service-account-signing-key-file={own.file('service-accounts', 'key')}",
            "--service-cluster-ip-range=10.96.0.0/16",
            f"--kubelet-client-certificate={own.file(ADMIN, 'crt')}",
            f"--kubelet-client-key={own.file(ADMIN, 'key')}",
            "--shutdown-send-retry-after",
            number=number,
        )

    def _haproxy(self) -> Program:
        servers = "\n".join(
            f"    server api-{number} {HOST}:{port} check check-ssl verify none"
            " inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions"
            for number, port in enumerate(self._ports)
        )
        config = self.folder / "haproxy.cfg"
        config.write_text(
            textwrap.dedent(f"""\
                global
                    log stdout format raw local0 notice
                defaults
                    mode tcp
                    log global
                    timeout connect 2s
                    timeout client 1h
                    timeout server 1h
                    timeout check 5s
                frontend door
                    bind {HOST}:{self._door_port}
                    default_backend api
                backend api
                    option httpchk GET /readyz
                    option redispatch
                    retries 3
                """)
            + servers
            + "\n",
            encoding="utf-8",
        )
        return self._program("haproxy", "-db", "-f", config)

    def _controller_manager(self) -> Program:
        own = self.credentials
        return self._manager(
            "kube-controller-manager",
            f"--service-account-private-key-file={own.file('service-accounts', 'key')}",
            f"--root-ca-file={own.ca_file}",
            "--use-service-account-credentials",  # its own account may not do what they may
        )

    def _scheduler(self) -> Program:
        return self._manager("kube-scheduler")

    def _manager(self, name: str, *words: str) -> Program:
        return self._program(
            name,
            f"--kubeconfig={self.credentials.kubeconfig(self.url, f'system:{name}')}",
            f"--bind-address={HOST}",
            f"--secure-port={self._health[name]}",
            "--leader-elect=false",
            *words,
        )

    def _kwok(self) -> Program:
        logs = textwrap.dedent(f"""\
            ---
            kind: ClusterLogs
            apiVersion: kwok.x-k8s.io/v1alpha1
            metadata: {{name: all}}
            spec:
              logs:
              - {{logsFile: "{self.pod_log_file}", follow: true}}
            """)
        config = self.folder / "kwok.yaml"
        config.write_text(PAPER.read_text(encoding="utf-8") + logs, encoding="utf-8")
        return self._program(
            "kwok",
            f"--kubeconfig={self.credentials.kubeconfig(self.url, 'kwok')}",
            f"--config={config}",
            "--manage-all-nodes=true",
            f"--node-ip={HOST}",
            f"--node-port={self._kubelet_port}",
            f"--server-address={HOST}:{self._kubelet_port}",
            f"--tls-cert-file={self.credentials.file('server', 'crt')}",
            f"--tls-private-key-file={self.credentials.file('server', 'key')}",
            "--node-lease-duration-seconds=40",
        )


def _node(name: str, has: Mapping[str, str], labels: Mapping[str, str]) -> dict[str, Any]:
    own = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": own},
        "status": {"capacity": dict(has), "allocatable": dict(has)},
    }


def _is_ready(node: Mapping[str, Any]) -> bool:
    conditions = node["status"].get("conditions", ())
    ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return ready and not node["spec"].get("taints")
