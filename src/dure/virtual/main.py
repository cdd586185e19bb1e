"""The process `dure vcluster run`: a control plane, its nodes, its Pods, and what is said of it."""

import asyncio
import fcntl
import logging
import os
import signal
import ssl
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dure.api.virtual import ApiServer, VirtualClusterDocument, VirtualStanding
from dure.client.fleet import AsyncFleetClient, FleetError, calls
from dure.domain.errors import DureError, InputError
from dure.domain.fleet.virtual import VirtualTier
from dure.kube.access import Access, load_access
from dure.kube.client import KubeClient
from dure.kube.errors import KubeError
from dure.kube.resources import NAMESPACES, Resource, uid_of
from dure.virtual.certificates import Authority
from dure.virtual.keeping import MANAGER, NodeKeeper, VirtualClusterGone
from dure.virtual.kubelet import VIEWERS, Kubelet
from dure.virtual.nodes import Door
from dure.virtual.options import GivenPlane, ManagedPlane, RunOptions
from dure.virtual.plane import LOOPBACK, Plane, free_port
from dure.virtual.pods import Ends, PodKeeper
from dure.virtual.serving import Listening, serve

_log = logging.getLogger("dure.virtual")

_LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"
_SAY_S = 5.0
"""How often the centre is told how the virtual cluster is."""
_LAST_S = 5.0
"""For the last word."""
_AGAIN_S = 1.0
_BINDINGS = Resource(
    "rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", namespaced=False
)


def run(options: RunOptions) -> None:
    """Until SIGTERM or SIGINT; what runs in the fleet runs on."""
    logging.basicConfig(format=_LOG_FORMAT, level=logging.INFO)
    logging.getLogger("httpx").setLevel(logging.WARNING)
    with _alone(options.state, options.name):
        asyncio.run(_until_told(options))


@contextmanager
def _alone(folder: Path, name: str) -> Iterator[None]:
    """One process at a time for a folder."""
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(folder / "lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise InputError(
            f"another process runs virtual cluster {name} from {folder}",
            "end that one first, or give another --state",
        ) from error
    try:
        yield
    finally:
        os.close(descriptor)


async def _until_told(options: RunOptions) -> None:
    loop = asyncio.get_running_loop()
    told = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    working = asyncio.create_task(_work(options))
    waiting = asyncio.create_task(told.wait())
    try:
        await asyncio.wait({working, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
    finally:
        waiting.cancel()
        working.cancel()
        with suppress(asyncio.CancelledError):
            await working
    _log.info("the virtual cluster ends; what runs for it in the fleet runs on")


async def _work(options: RunOptions) -> None:
    async with AsyncFleetClient(options.centre) as centre:
        document = await _known(centre, options)
        path = _path(document)
        kubelet = Kubelet(centre, path)
        port = options.kubelet_port or free_port(options.kubelet_host)
        try:
            match options.plane:
                case ManagedPlane() as managed:
                    await _managed(options, managed, centre, kubelet, port)
                case GivenPlane() as given:
                    await _given(options, given, centre, kubelet, port)
        except* VirtualClusterGone as gone:
            _log.warning("%s", gone.exceptions[0])
        except* DureError as group:
            raise _first(group) from None
        finally:
            await _last_word(centre, options.name)


async def _known(centre: AsyncFleetClient, options: RunOptions) -> VirtualClusterDocument:
    """The document of the virtual cluster; waits for a centre that is away."""
    found: VirtualClusterDocument | None = None
    while found is None:
        try:
            found = await centre.do(calls.get_virtual(options.name))
        except FleetError as error:
            if getattr(error, "status", 503) < 500:
                raise
            _log.warning("waits for the centre: %s", error)
            await asyncio.sleep(_AGAIN_S)
    if found.spec.tier is not VirtualTier.DEDICATED:
        raise InputError(
            f"virtual cluster {options.name} is scoped: it has no API server of its own",
            "see dure vcluster kubeconfig",
        )
    given = isinstance(options.plane, GivenPlane)
    if given is not (found.spec.api_server is ApiServer.GIVEN):
        remedy = "leave --kubeconfig out" if given else "name it with --kubeconfig"
        raise InputError(
            f"the API server of virtual cluster {options.name} is {found.spec.api_server.value}",
            f"{remedy}, or change apiServer of the document",
        )
    return found


def _path(document: VirtualClusterDocument) -> str:
    spec = document.spec
    return f"{spec.tenant}/{spec.team}" if spec.team else spec.tenant


@dataclass
class _Side:
    """What is said of the virtual cluster."""

    url: str
    authority: str
    plane: Plane | None = None


async def _managed(
    options: RunOptions,
    managed: ManagedPlane,
    centre: AsyncFleetClient,
    kubelet: Kubelet,
    port: int,
) -> None:
    plane = await asyncio.to_thread(Plane, options.state, managed, port)
    hosts = [options.kubelet_host, LOOPBACK]
    listening = Listening(
        options.kubelet_host,
        port,
        plane.authority.server("kubelet", hosts),
        plane.authority.file,
    )
    side = _Side(plane.url, plane.authority.file.read_text(encoding="utf-8"), plane)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(serve(kubelet.app(), listening))
        tasks.create_task(plane.run())
        tasks.create_task(_ready_then_keep(options, centre, kubelet, side, port))


async def _ready_then_keep(
    options: RunOptions, centre: AsyncFleetClient, kubelet: Kubelet, side: _Side, port: int
) -> None:
    assert side.plane is not None
    await _say(centre, options.name, _standing(side, "starting"))
    await side.plane.ready()
    _log.info("the API server answers at %s; %s", side.url, side.plane.kubeconfig)
    access = load_access(side.plane.kubeconfig)
    await _keep(options, centre, kubelet, side, (access, port))


async def _given(
    options: RunOptions, given: GivenPlane, centre: AsyncFleetClient, kubelet: Kubelet, port: int
) -> None:
    access = load_access(given.kubeconfig, given.context)
    authority = await asyncio.to_thread(Authority, options.state / "pki")
    trust = access.authority.decode() if access.authority else ""
    side = _Side(access.url, trust)
    async with asyncio.TaskGroup() as tasks:
        if given.client_authority is None:
            _log.warning(
                "no logs are given: name who signs the API server's certificate for kubelets "
                "with --client-ca"
            )
            port = 0
        else:
            _check_authority(given.client_authority)
            pair = authority.server("kubelet", [options.kubelet_host, LOOPBACK])
            listening = Listening(options.kubelet_host, port, pair, given.client_authority)
            tasks.create_task(serve(kubelet.app(), listening))
        tasks.create_task(_keep(options, centre, kubelet, side, (access, port)))


def _check_authority(file: Path) -> None:
    try:
        ssl.create_default_context(cafile=str(file))
    except OSError as error:
        raise InputError(f"{file} is no file of certificates", "check --client-ca") from error


async def _keep(
    options: RunOptions,
    centre: AsyncFleetClient,
    kubelet: Kubelet,
    side: _Side,
    at: tuple[Access, int],
) -> None:
    """Nodes, Pods and the word to the centre, until cancelled."""
    access, port = at
    async with KubeClient(access) as kube:
        plane = await _plane_uid(kube)
        await _let_viewers_see(kube)
        nodes = NodeKeeper(options.name, kube, centre, Door(options.kubelet_host, port))
        pods = PodKeeper(Ends(options.name, plane, kube, centre), nodes)
        kubelet.pods = pods
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(nodes.run())
            tasks.create_task(pods.run())
            tasks.create_task(_say_always(centre, kube, options.name, side, (nodes, pods)))


async def _plane_uid(kube: KubeClient) -> str:
    """Names this life of an API server."""
    while True:
        try:
            return uid_of(await kube.get(NAMESPACES, "kube-system"))
        except KubeError as error:
            _log.warning("the API server does not answer: %s", error)
            await asyncio.sleep(_AGAIN_S)


async def _let_viewers_see(kube: KubeClient) -> None:
    binding = {
        "metadata": {"name": "dure-viewers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": VIEWERS}],
    }
    try:
        await kube.apply(_BINDINGS, binding, manager=MANAGER, force=True)
    except KubeError as error:
        _log.warning("viewers see nothing: %s", error)


# --- what the centre is told -----------------------------------------------------------------


def _standing(side: _Side, phase: str, message: str = "", **counts: int) -> VirtualStanding:
    return VirtualStanding(
        phase=phase, message=message[:4000], url=side.url, authority=side.authority, **counts
    )


async def _say_always(
    centre: AsyncFleetClient,
    kube: KubeClient,
    name: str,
    side: _Side,
    kept: tuple[NodeKeeper, PodKeeper],
) -> None:
    nodes, pods = kept
    while True:
        phase, message = "ready", ""
        try:
            await kube.get(NAMESPACES, "kube-system")
        except KubeError as error:
            phase, message = "broken", str(error)
            if side.plane is not None and side.plane.message:
                message = f"{error}; {side.plane.message}"
            _log.warning("%s", message)
        said = _standing(side, phase, message, nodes=len(nodes.pools), pods=pods.count)
        await _say(centre, name, said)
        await asyncio.sleep(_SAY_S)


async def _say(centre: AsyncFleetClient, name: str, standing: VirtualStanding) -> None:
    try:
        await centre.do(calls.say_virtual(name, standing))
    except FleetError as error:
        _log.info("the centre is not told: %s", error)


async def _last_word(centre: AsyncFleetClient, name: str) -> None:
    with suppress(TimeoutError, asyncio.CancelledError):
        async with asyncio.timeout(_LAST_S):
            await _say(centre, name, VirtualStanding(phase="ended"))


def _first(group: BaseExceptionGroup[DureError]) -> DureError:
    stack: list[BaseException] = [group]
    while True:
        each = stack.pop(0)
        if isinstance(each, BaseExceptionGroup):
            stack += each.exceptions
        elif isinstance(each, DureError):
            return each
