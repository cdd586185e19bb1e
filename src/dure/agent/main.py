"""The agent's composition: what is made of what, in which order it starts and in which it ends."""

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import partial
from logging.handlers import RotatingFileHandler

from dure import __version__
from dure.agent import http, lock, state
from dure.agent.actor import Actor
from dure.agent.advice_desk import AdviceDesk
from dure.agent.adviser import Adviser
from dure.agent.containers.care import Host, make_care
from dure.agent.desk import Desk
from dure.agent.door import Door, listen
from dure.agent.events import EventLog
from dure.agent.foresight import Foresight
from dure.agent.gpu import Gpu, GpuIdentity
from dure.agent.heart import Heart, Pulse
from dure.agent.mps import EMULATOR_VARIABLE, MpsDaemon, find_daemon
from dure.agent.options import AgentOptions
from dure.agent.ports import GpuLibrary
from dure.agent.profiles import profile_of
from dure.agent.reception import Reception, Sizes
from dure.agent.registry import ROOT_UID
from dure.agent.service import Service
from dure.agent.telemetry.making import Measured, start_telemetry
from dure.client.places import SOCKET_VARIABLE, TENANT_VARIABLE, Places
from dure.client.schema import AgentInfo
from dure.devices import layout, library
from dure.devices.nvml import GpuFacts, Nvml
from dure.devices.nvml_gauges import NvmlGauges
from dure.devices.plane import PlaneDevice, PlaneSegments
from dure.domain.errors import DureError, InputError
from dure.domain.tenant import Tenant
from dure.kernel.policies.registry import make_policy
from dure.kit.memory import keep_what_is_loaded
from dure.sim.kernel.tuning import chooser_of

_log = logging.getLogger("dure.agent")

_LOG_BYTES = 10_000_000
_NICENESS = -10
"""A late heart opens the gate and a late answer leaves a program unmanaged, so the agent goes
before the programs it serves; where it may not, it does without."""
_SWITCH_S = 0.0005
"""How long a thread that decides may keep those waiting that answer programs and beat the heart;
Python's own 5 ms would add up while many tenants register at once."""
_LOG_FORMAT = "%(asctime)s %(levelname)s %(message)s"


def run(options: AgentOptions, open_nvml: Callable[[], GpuLibrary] = Nvml) -> None:
    """Be the agent until SIGTERM or SIGINT."""
    os.umask(0o022)
    sys.setswitchinterval(_SWITCH_S)
    keep_what_is_loaded()
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, _NICENESS)
    _make_run_dir(options)
    held = lock.take(options.places.pid_file)
    try:
        _log_to(options)
        with ExitStack() as ends:
            daemon = _start_mps(options)
            nvml = open_nvml()
            ends.callback(nvml.close)
            _serve(options, nvml, daemon, ends)
    finally:
        held.release()


def _make_run_dir(options: AgentOptions) -> None:
    folder = options.places.run_dir
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if folder.stat().st_uid != os.getuid():
            raise InputError(
                f"{folder} belongs to another user", "name a folder of your own in DURE_RUN_DIR"
            )
        folder.chmod(0o755 if os.getuid() == ROOT_UID else 0o700)
    except OSError as error:
        raise InputError(
            f"{folder} cannot be used ({error.strerror})",
            "name a folder of your own in DURE_RUN_DIR",
        ) from error


def _log_to(options: AgentOptions) -> None:
    handler = (
        RotatingFileHandler(options.log_file, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8")
        if options.log_file is not None
        else logging.StreamHandler()
    )
    handler.setFormatter(logging.Formatter(_LOG_FORMAT))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.INFO)
    logging.getLogger("uvicorn").setLevel(logging.WARNING)


def _serve(
    options: AgentOptions, nvml: GpuLibrary, daemon: MpsDaemon | None, ends: ExitStack
) -> None:
    """Start everything, answer, and end everything in the opposite order."""
    places = options.places
    mode = 0o666 if os.getuid() == ROOT_UID else 0o600
    make_policy(options.policy)
    registry, policies = state.load(places.state_file)
    events = EventLog()
    actors = tuple(
        _make_actor(facts, options, policies, events) for facts in _chosen(nvml, options)
    )
    service = Service(
        uid=os.getuid(),
        actors=actors,
        registry=registry,
        policy_states=policies,
        state_file=places.state_file,
        events=events,
        environment=partial(_environment, options, daemon),
        daemon=daemon,
    )
    sizes = Sizes(layout.CONTROL_BYTES, layout.SLOT_BYTES)
    door = Door(places.shim_socket, mode, Reception(service, sizes))
    service.watch_holder = door.watch_holder
    heart = Heart(tuple(_pulse(actor) for actor in actors))
    heart.start()
    for actor in actors:
        actor.start()
        ends.callback(actor.stop)
    ends.callback(_leave, actors, heart, daemon)
    service.restore()
    adviser = Adviser(actors, options.adapt, chooser_of(options.tuner))
    foresight = Foresight(actors, listeners=[adviser.hear])
    foresight.start()
    ends.callback(foresight.stop)
    adviser.start()
    ends.callback(adviser.stop)
    advice = AdviceDesk(adviser)
    door.start()
    ends.callback(door.stop)
    own = listen(places.api_socket, socket.SOCK_STREAM, mode)
    ends.callback(_close, own, places)
    tcp = _listen_tcp(options.http) if options.http is not None else None
    desk = Desk(service, nvml, _info(options))
    if options.containers is not None:
        care = make_care(options, options.containers, _host(nvml, service))
        care.start()
        ends.callback(care.stop)
        foresight.listeners.append(care.heed)
        desk.containers = care.desk
    measured = Measured(tuple(_chosen(nvml, options)), foresight.listening(NvmlGauges()), service)
    measured = replace(measured, more=(advice,))
    if desk.containers is not None:
        measured = replace(measured, containers=desk.containers.status)
    telemetry = start_telemetry(options.telemetry, places, measured, ends)
    events.add("agent", f"ready in {places.run_dir}, {len(actors)} GPU, {options.sharing}")
    if options.http is not None:
        _log.info("to look at: http://%s:%d/ui/", *options.http)
    _log.info("to look and change: run `dure dashboard`")
    asyncio.run(http.serve(http.Desks(service, desk, telemetry, advice), own, tcp))


def _host(nvml: GpuLibrary, service: Service) -> Host:
    """What managing containers needs to know of the rest."""

    def tenants() -> dict[int, str]:
        return {
            client.pid: client.tenant
            for actor in service.actors
            for client in list(actor.gpu.clients.values())
        }

    return Host(tuple(nvml.gpus()), service.events, tenants)


def _close(own: socket.socket, places: Places) -> None:
    own.close()
    places.api_socket.unlink(missing_ok=True)
    places.shim_socket.unlink(missing_ok=True)


def _leave(actors: tuple[Actor, ...], heart: Heart, daemon: MpsDaemon | None) -> None:
    """The orderly end: nobody is held from here on; MPS goes if nobody uses it."""
    for actor in actors:
        actor.call(lambda gpu: gpu.open_gate("the agent ends"))
    heart.stop()
    if daemon is not None and not any(actor.gpu.clients for actor in actors):
        daemon.quit()
    _log.info("the agent ends")


def _start_mps(options: AgentOptions) -> MpsDaemon | None:
    if options.sharing != "mps":
        return None
    daemon = find_daemon(options.places.mps_dir, os.environ)
    fresh = daemon.ensure(open_to_all=os.getuid() == ROOT_UID)
    _log.info("the MPS daemon %s", "was started" if fresh else "was found running")
    return daemon


def _chosen(nvml: GpuLibrary, options: AgentOptions) -> list[GpuFacts]:
    found = nvml.gpus()
    if not options.gpus:
        return found
    chosen = [gpu for gpu in found if {gpu.uuid, str(gpu.index)} & set(options.gpus)]
    if len(chosen) < len(options.gpus):
        known = ", ".join(f"{gpu.index} ({gpu.uuid})" for gpu in found)
        raise InputError("there is no such GPU", f"use one of {known}", field="--gpu")
    return chosen


def _make_actor(
    facts: GpuFacts, options: AgentOptions, policies: state.Policies, events: EventLog
) -> Actor:
    profile = profile_of(facts)
    side_by_side = options.sharing == "mps"
    kept = policies.get(facts.uuid) or state.PolicyState(policy=options.policy)
    parameters = tuple(sorted(kept.parameters.items()))
    try:
        make_policy(kept.policy, parameters)
    except InputError as error:
        _log.warning("policy of GPU %d not kept: %s", facts.index, error)
        kept, parameters = state.PolicyState(policy=options.policy), ()
    plane = PlaneSegments(
        PlaneDevice(
            sms=profile.sms,
            group_sms=profile.sm_granule,
            memory_bytes=profile.memory_bytes,
            uuid=facts.uuid_bytes,
            side_by_side=side_by_side,
        )
    )
    identity = GpuIdentity(
        facts.index, facts.uuid, facts.name, facts.uuid_bytes, profile, side_by_side
    )
    gpu = Gpu(
        identity,
        plane,
        events,
        kept.policy,
        parameters,
        time.monotonic_ns,
        weights=options.weights,
    )
    return Actor(gpu)


def _pulse(actor: Actor) -> Pulse:
    return Pulse(
        beat=actor.gpu.plane.beat,
        last_round_ns=lambda: actor.last_round_ns,
        open_gate=lambda: actor.gpu.open_gate("deciding hangs; see the log"),
    )


def _environment(
    options: AgentOptions, daemon: MpsDaemon | None, tenant: Tenant, gpu: str | None
) -> tuple[dict[str, str], tuple[str, ...]]:
    """What a tenant's processes need, and what is worth a note."""
    notes: tuple[str, ...] = ()
    given = {
        SOCKET_VARIABLE: str(options.places.shim_socket.absolute()),
        TENANT_VARIABLE: tenant.id,
    }
    try:
        given["LD_PRELOAD"] = str(library.path("libdure.so"))
    except DureError as error:
        notes = (f"The program runs unmanaged: {error}.",)
    if daemon is not None:
        given |= daemon.environment_of(tenant)
    if gpu is not None:
        given["CUDA_VISIBLE_DEVICES"] = gpu
    emulator = os.environ.get(EMULATOR_VARIABLE)
    if emulator is not None:
        given[EMULATOR_VARIABLE] = emulator
        given["LD_LIBRARY_PATH"] = str(library.FOLDER / "emulator")
    return given, notes


def _listen_tcp(where: tuple[str, int]) -> socket.socket:
    try:
        return socket.create_server(where)
    except OSError as error:
        raise InputError(
            f"cannot listen at {where[0]}:{where[1]} ({error.strerror})",
            "use another address",
            field="--http",
        ) from error


def _info(options: AgentOptions) -> AgentInfo:
    return AgentInfo(
        version=__version__,
        pid=os.getpid(),
        uid=os.getuid(),
        started_unix_s=time.time(),
        run_dir=str(options.places.run_dir.absolute()),
        sharing=options.sharing,
        socket=str(options.places.shim_socket.absolute()),
        abi_version=layout.VERSION,
    )
