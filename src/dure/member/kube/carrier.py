"""The carrier of a Kubernetes cluster: the ports of a member on Pods, Jobs and claims."""

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from dure.domain.errors import DureError
from dure.domain.fleet.decisions import InstanceId, Placement
from dure.domain.fleet.protocol.desired import Desired, Partition
from dure.domain.fleet.workloads import WorkloadKind
from dure.kube.client import KubeClient
from dure.kube.errors import KubeOverloadedError, KubeServerError, KubeUnreachableError
from dure.kube.requests import LogOptions
from dure.kube.resources import JOBS, PODS
from dure.member.kube import gangs, names
from dure.member.kube.board import Board
from dure.member.kube.following import Follower
from dure.member.kube.hands import BusyError, Hands
from dure.member.kube.instances import Carried
from dure.member.kube.partition import PARTITIONERS
from dure.member.kube.pods import MAIN, Unit
from dure.member.kube.refusals import Judge
from dure.member.kube.settings import KubeSettings
from dure.member.kube.shepherd import Shepherd
from dure.member.kube.spots import NodeSpot
from dure.member.ports import Life, PartitionRefusedError, Seen, Sight, Start

log = logging.getLogger(__name__)

_AGAIN_S = 0.5
"""How often it is tried to make what waits for an old object to go."""


class KubeCarrier:
    """Hands and eyes of one cluster. Instances are made while somebody watches."""

    kind = "kubernetes"

    def __init__(
        self,
        client: KubeClient,
        settings: KubeSettings,
    ) -> None:
        self.settings = settings
        self._client = client
        self._hands = Hands(client, settings)
        self._judge = Judge(client)
        self._board = Board(settings)
        self._waiting: dict[str, Sequence[Unit]] = {}
        """What is to be made once an old object of that name has gone."""
        self._told: asyncio.Queue[Sight] = asyncio.Queue()

    # Eyes

    async def watch(self) -> AsyncGenerator[Sight]:
        """All that is there now, `Synced`, then every change."""
        self._board = Board(self.settings)
        self._told = asyncio.Queue()
        tasks: list[asyncio.Task[None]] = []
        try:
            tasks.append(asyncio.create_task(self._follow(self._board)))
            tasks.append(asyncio.create_task(Shepherd(self._board, self._hands).run()))
            tasks.append(asyncio.create_task(self._make_anew()))
            while True:
                yield await self._next(tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _next(self, tasks: Sequence[asyncio.Task[None]]) -> Sight:
        """The next sight; raises what ended one of the tasks."""
        if not self._told.empty():
            return self._told.get_nowait()
        taking = asyncio.create_task(self._told.get())
        try:
            await asyncio.wait([taking, *tasks], return_when=asyncio.FIRST_COMPLETED)
            if taking.done():
                return taking.result()
        finally:
            taking.cancel()
        for task in tasks:
            if task.done():
                task.result()
        raise AssertionError("tasks of a watch end only by an error")

    async def _follow(self, board: Board) -> None:
        async with aclosing(Follower(self._client, board).sights()) as sights:
            async for sight in sights:
                self._told.put_nowait(sight)

    # Hands

    async def refusal(self, desired: Desired) -> str:
        """Why this cluster can never run it; empty: it can."""
        return await self._judge.refusal(self._board, desired)

    async def start(self, starts: Sequence[Start]) -> None:
        """Make Pods, or the Job of a gang; what an old object is in the way of, a little later.

        Workers that come later to a gang that grows are Pods of their own.
        """
        units = sorted(map(self._unit, starts), key=lambda unit: unit.rank)
        serving = units[0].desired.order.workload.kind is WorkloadKind.SERVING
        ranks = [unit.rank for unit in units]
        if len(units) > 1 and not serving and ranks == list(range(len(units))):
            await self._make(units)
        else:
            await self._hands.all_of(partial(self._make, [unit]) for unit in units)

    async def stop(self, instance: InstanceId, grace_s: float) -> None:
        """End an instance and remove its objects."""
        waited = self._no_longer_wanted(instance)
        carried = self._board.instances.carried.get(instance)
        if carried is not None:
            await self._hands.end(carried, grace_s)
        else:
            for resource, thing in await self._hands.find(instance):
                await self._hands.remove(resource, thing, grace_s if resource is PODS else None)
            if waited:
                self._told.put_nowait(Seen(instance, Life.GONE, "", names.object_name(instance)))

    async def request(self, instance: InstanceId, number: int) -> None:
        """Ask its program for a checkpoint, by an annotation that its Pod shows it as a file."""
        carried = self._board.instances.carried.get(instance)
        pod = None if carried is None else carried.pod
        if pod is not None:
            noted = {names.CHECKPOINT_REQUESTED: str(number) if number else ""}
            await self._hands.change(PODS, pod, {"metadata": {"annotations": noted}})

    async def forget(self, instance: InstanceId) -> None:
        """Remove what is left of an instance that is over."""
        carried = self._board.instances.carried.get(instance)
        if carried is None or carried.told is None or not carried.told.life.over:
            return
        if carried.job is None:
            await self._hands.all_of(
                partial(self._hands.remove, PODS, pod) for pod in carried.pods.values()
            )
        elif self._is_all_over(carried):
            await self._hands.remove(JOBS, carried.job)

    async def resize(self, instance: InstanceId, placement: Placement) -> None:
        """Refused: a Pod keeps the devices and slices that it was started with."""
        raise DureError(
            f"the slice of instance {instance.index} cannot be changed while it runs",
            "start another one and end this one when that is ready",
        )

    async def repartition(self, partition: Partition) -> str:
        """Divide a node's devices anew; refused while anything of them is in use."""
        partitioner = PARTITIONERS.get(self.settings.partitioner)
        if partitioner is None:
            raise PartitionRefusedError(
                "this cluster divides no devices at our request",
                "name a partitioner in the member's settings",
            )
        return await partitioner.apply(self._client, self._board, partition)

    async def logs(
        self, instance: InstanceId, *, follow: bool, tail: int | None
    ) -> AsyncIterator[bytes]:
        """What its program printed, line by line."""
        pods = [thing for kind, thing in await self._hands.find(instance) if kind is PODS]
        if not pods:
            raise DureError(f"{names.object_name(instance)} has no Pod", "ask while it runs")
        metadata = pods[-1]["metadata"]
        options = LogOptions(container=MAIN, follow=follow, tail_lines=tail)
        lines = self._client.log_lines(metadata["name"], metadata["namespace"], options)
        async with aclosing(lines):
            async for line in lines:
                yield f"{line}\n".encode()

    async def close(self) -> None:
        """Give the connections back."""
        await self._client.close()

    # Making

    def _unit(self, start: Start) -> Unit:
        """What a start means in this cluster; raises where it cannot be."""
        board = self._board
        spot = self._spot(start)
        devices = board.devices.get(spot.node)
        if devices is None:
            raise DureError(f"node {spot.node} is gone", "decide anew on the present inventory")
        unit = Unit(
            start.instance,
            start.desired,
            spot,
            taint_keys=devices.taint_keys,
            rank=start.rank,
            world_size=start.world_size,
        )
        if devices.driver:
            return replace(unit, offers=board.offers[spot.node].chosen(spot))
        resource = devices.resource_of(spot.template) if spot.devices else ""
        if devices.offers(resource) < len(spot.devices):
            raise DureError(
                f"node {spot.node} has {devices.offers(resource)} {resource}, "
                f"{len(spot.devices)} are needed",
                "divide its devices anew, or choose another slice",
            )
        return replace(unit, resource=resource)

    def _spot(self, start: Start) -> NodeSpot:
        """Where it is to be: by names where those are given, else by the numbers told last."""
        placement = start.placement
        if start.node and len(start.devices) == len(placement.devices):
            return NodeSpot(
                start.node,
                start.devices,
                placement.masks,
                placement.template,
                placement.compute_milli,
            )
        if self._board.numbering is None:
            raise DureError("the cluster is not known yet", "start once `Synced` was told")
        return self._board.numbering.spot(placement, start.node)

    async def _make(self, units: Sequence[Unit]) -> None:
        """Make the objects now, or put them on the list of those that wait for an old one."""
        name = gangs.gang_name(units)
        instances = {unit.instance for unit in units}
        self._board.instances.awaited |= instances
        try:
            await self._make_now(units)
        except BusyError as error:
            log.info("%s waits: %s", name, error)
            self._waiting[name] = units
        else:
            self._waiting.pop(name, None)
        finally:
            if name not in self._waiting:
                self._board.instances.awaited -= instances

    def _drop(self, name: str, instances: set[InstanceId]) -> None:
        self._waiting.pop(name, None)
        self._board.instances.awaited -= instances

    async def _make_now(self, units: Sequence[Unit]) -> None:
        if len(units) == 1:
            await self._hands.make_pod(units[0])
            return
        carried = self._board.instances.carried
        old = [unit.instance for unit in units if unit.instance in carried]
        if any(carried[instance].job is None for instance in old):
            raise BusyError(f"Pods of the old gang {units[0].name} still end")
        await self._hands.make_gang(units)

    async def _make_anew(self) -> None:
        """Try again what waits; ends when it is cancelled."""
        while True:
            await asyncio.sleep(_AGAIN_S)
            for name, units in list(self._waiting.items()):
                try:
                    await self._make_now(units)
                except BusyError:
                    continue
                except (KubeUnreachableError, KubeServerError, KubeOverloadedError) as error:
                    log.warning("%s cannot be made yet: %s", name, error)
                    continue
                except DureError as error:
                    for unit in units:
                        self._told.put_nowait(
                            Seen(unit.instance, Life.UNBOUND, unit.spot.node, name, why=str(error))
                        )
                if self._waiting.get(name) is units:
                    self._drop(name, {unit.instance for unit in units})

    def _no_longer_wanted(self, instance: InstanceId) -> bool:
        """Give up making an instance; whether that was still to be done."""
        for name, units in list(self._waiting.items()):
            if any(unit.instance == instance for unit in units):
                self._drop(name, {unit.instance for unit in units})
                return True
        return False

    def _is_all_over(self, carried: Carried) -> bool:
        """Whether nothing of an instance's gang runs any more."""
        job = carried.job
        if job is None or gangs.finished(job):
            return True
        pods = self._board.instances.gang_pods(job)
        phases = [(pod.get("status") or {}).get("phase") for pod in pods if pod is not None]
        return all(phase in ("Succeeded", "Failed") for phase in phases)
