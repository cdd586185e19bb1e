"""Strategy `dure`: long bursts one after another, short ones beside them, inputs copied ahead.

Per GPU some units have their turn (`NodeSettings.sharers` of them). The others are held, best with
their input copied (*primed*), so that they compute the moment they are let go; that is shortly
before the end the burst ahead of them is predicted to have. Whose bursts are too short to be worth
a pause, or who uses only part of the GPU's time, runs beside, outside the queue.
"""

from dataclasses import dataclass, field

from dure.domain.containers import PauseWay
from dure.domain.ids import GpuUuid
from dure.domain.units import NS_PER_MS, NS_PER_S, format_duration
from dure.node.activity import SATURATED, Phase
from dure.node.memory import Rooms, will_take
from dure.node.strategies.base import Plan, Say, Scene, Verdict
from dure.node.strategies.breaks import Breaks
from dure.node.strategies.forecast import OVERLONG, Forecast
from dure.node.strategies.order import effective_class, in_order
from dure.node.units import Unit, UnitKey

UNKNOWN_AHEAD_NS = 1 * NS_PER_S
"""Stands for what is left of a burst nobody knows the end of, where deadlines are weighed."""

LEAST_WAKE_NS = 2 * NS_PER_MS
"""Ends that are foreseen are not looked at more often: beside others the last part lasts longer."""

SERVES_ON_NS = 10 * NS_PER_S
"""A service that was silent for so long is none for those who compute."""

SERVED_USE = 0.8
"""A GPU with a service on it takes another turn only below this use, others below 95 %."""

_BEHIND = "others came before it"
_STAYS = Verdict(Say.WAIT, _BEHIND)
_STAYS_PRIMED = Verdict(Say.WAIT, _BEHIND, primed=True)
_HAS_TURN = Verdict(Say.GO, "it has its turn")


@dataclass(slots=True)
class _Round:
    """One decision in the making."""

    scene: Scene
    forecast: Forecast
    verdicts: dict[UnitKey, Verdict] = field(default_factory=dict)
    taken: dict[GpuUuid, int] = field(default_factory=dict)
    """Turns in use on each GPU."""
    inputs: dict[GpuUuid, int] = field(default_factory=dict)
    """Inputs that are being copied to each GPU."""
    served: dict[GpuUuid, int] = field(default_factory=dict)
    """GPUs on which services run beside, who feel each one more that computes, and their class."""
    ending: list[Unit] = field(default_factory=list)
    """Who has its turn and is about to end: the next one goes ahead of that."""
    wakes: list[int] = field(default_factory=list)

    def count_inputs(self, waiting: list[Unit]) -> None:
        """Inputs of those who have their turn, and of those whose lock waits for the copy."""
        for unit in self.scene.units:
            left_ns = self.forecast.input_left_ns(unit) if unit.turn_ns is not None else 0
            copying = left_ns > 0
            if copying and waiting:
                self.wakes.append(self.scene.now_ns + left_ns)
            if unit.activity.active and (
                copying or (unit in waiting and unit.primed and unit.taking)
            ):
                self.add_input(unit)

    def add_input(self, unit: Unit) -> None:
        """A unit may copy its input now."""
        for gpu in unit.gpus:
            self.inputs[gpu] = self.inputs.get(gpu, 0) + 1

    def may_input(self, unit: Unit) -> bool:
        """Whether one more may copy its input to each of a unit's GPUs."""
        most = self.scene.settings.inputs
        for gpu in unit.gpus:  # noqa: SIM110, asked often, and this is twice as fast
            if self.inputs.get(gpu, 0) >= most:
                return False
        return True

    def ready(self, unit: Unit) -> bool:
        """Whether a unit waits past its set-up, so that it could have a turn now."""
        waits = unit.turn_ns is None and unit.activity.phase is Phase.INPUT
        return waits and not self.forecast.without_input(unit)

    def serve(self, unit: Unit) -> None:
        """A unit is a service."""
        for gpu in unit.gpus:
            self.served[gpu] = max(self.served.get(gpu, unit.priority), unit.priority)

    def guarded(self, unit: Unit) -> bool:
        """Whether a service of a higher class than a unit's is on one of its GPUs."""
        if not self.served:
            return False
        own = effective_class(unit, self.scene.now_ns, self.scene.settings)
        return any(self.served.get(gpu, own) > own for gpu in unit.gpus)

    def take(self, unit: Unit) -> None:
        """A unit's turn uses one place on each of its GPUs."""
        for gpu in unit.gpus:
            self.taken[gpu] = self.taken.get(gpu, 0) + 1

    def room(self, unit: Unit, more: dict[GpuUuid, int]) -> bool:
        """Whether each of its GPUs has a place for one more turn."""
        sharers = self.scene.settings.sharers
        for gpu in unit.gpus:  # noqa: SIM110, the same
            if self.taken.get(gpu, 0) >= sharers + more.get(gpu, 0):
                return False
        return True


@dataclass(slots=True)
class DureStrategy:
    """The default."""

    name: str = "dure"
    prefers: PauseWay | None = None
    _breaks: Breaks = field(default_factory=Breaks)

    def plan(self, scene: Scene) -> Plan:
        """Admit by memory, let the short run beside, give the long their turns in order."""
        if not scene.settings.ways:
            return Plan()
        now = _Round(scene, Forecast(scene))
        self._breaks.follow(scene.units, scene.now_ns)
        starving = self._admission(now)
        active = [u for u in scene.units if u.activity.active and u.key not in now.verdicts]
        for unit in active:
            light = now.forecast.light(unit)
            if light is not None:
                now.verdicts[unit.key] = Verdict(Say.BESIDE, light)
                now.serve(unit)
        for unit in (*scene.units, *scene.bystanders):
            # A service under the shim, or one that is exempt, feels a crowd as any other does.
            if unit.key not in now.verdicts and _serves(unit, now.forecast):
                now.serve(unit)
        long = [unit for unit in active if unit.key not in now.verdicts and self._pays(now, unit)]
        queue = self._turns(now, long)
        wake_ns = min(now.wakes, default=None)
        return Plan(now.verdicts, (*queue, *(unit.key for unit in starving)), wake_ns)

    # Memory

    def _admission(self, now: _Round) -> list[Unit]:
        """Hold those who would not find the memory they will need; returns them in order."""
        scene, settings = now.scene, now.scene.settings
        fresh = [u for u in scene.units if not u.admitted and u.activity.memory_bytes == 0]
        if not fresh:
            return []
        loads = {uuid: gpu.load for uuid, gpu in scene.gpus.items()}
        rooms = Rooms(loads, settings.memory_reserve_bytes)
        newcomers = set(fresh)
        for unit in (*scene.units, *scene.bystanders):
            if unit not in newcomers and will_take(
                unit, scene.now_ns, settings.grace_ns, settings.promise_ns
            ):
                rooms.promise(unit, scene.history)
        starving: list[Unit] = []
        blocked: set[GpuUuid] = set()
        for unit in in_order(fresh, 0, scene.now_ns, scene.history, settings):
            shortage = rooms.shortage(unit, scene.history)
            filling = [scene.filling[gpu] for gpu in sorted(unit.gpus) if gpu in scene.filling]
            if shortage is None and not filling and blocked.isdisjoint(unit.gpus):
                unit.admitted = True
                rooms.promise(unit, scene.history)
                continue
            starving.append(unit)
            reason = shortage.sentence() if shortage else "another waits for memory before it"
            if shortage is None and filling:
                reason = f"memory is about to be full: {filling[0]}"
            now.verdicts[unit.key] = Verdict(Say.MEMORY, reason)
            waited_ns = scene.now_ns - unit.wait_ns if unit.wait_ns is not None else 0
            if waited_ns >= settings.ageing_ns:
                # Smaller ones may go first, but not for ever.
                blocked |= unit.gpus
        return starving

    # Who queues at all

    def _pays(self, now: _Round, unit: Unit) -> bool:
        """Whether a unit queues, or its bursts are too short to be worth that."""
        burst_ns = now.forecast.burst_ns(unit)
        if burst_ns is None or now.forecast.pays(burst_ns, now.forecast.way(unit)):
            return True
        if not unit.gpus.isdisjoint(now.served) or not unit.gpus.isdisjoint(now.scene.crowded):
            # It costs more than it brings, except to the service beside it.
            return True
        reason = f"its bursts of {format_duration(burst_ns)} are too short to be worth a wait"
        now.verdicts[unit.key] = Verdict(Say.BESIDE, reason)
        return False

    # Turns

    def _turns(self, now: _Round, long: list[Unit]) -> list[UnitKey]:
        """Give turns in order; returns those who wait, next one first."""
        scene = now.scene
        self._pass_on(now, long)
        self._take_back(now, long)
        having = [unit for unit in long if _has_turn(unit, scene)]
        waiting = [unit for unit in long if not _has_turn(unit, scene)]
        ahead_ns = sum(now.forecast.left_ns(unit) or UNKNOWN_AHEAD_NS for unit in having)
        waiting = in_order(
            waiting, ahead_ns, scene.now_ns, scene.history, scene.settings, scene.crowded
        )
        for unit in sorted(having, key=lambda u: (u.turn_ns or 0, u.key)):
            rivals = [other for other in waiting if not unit.gpus.isdisjoint(other.gpus)]
            now.verdicts[unit.key] = self._keep_turn(now, unit, rivals)
        return self._give_turns(now, waiting)

    def _pass_on(self, now: _Round, long: list[Unit]) -> None:
        """Who still makes its context gives up its turn where another could compute instead."""
        if not now.scene.updated:
            return  # its context may have been made since the last table
        for unit in long:
            if unit.turn_ns is None or not now.forecast.setting_up(unit):
                continue
            if any(now.ready(other) and not unit.gpus.isdisjoint(other.gpus) for other in long):
                unit.end_turn(now.scene.now_ns)

    def _take_back(self, now: _Round, long: list[Unit]) -> None:
        """Who was let go ahead of an end that did not come gives its turn back, keeps its place and
        waits on: else both would share the GPU for as long as nobody else comes."""
        for unit in long:
            if not unit.ahead_of or now.scene.now_ns < unit.must_go_until_ns:
                continue
            before = [other for other in long if unit.went_ahead_of(other)]
            if not _runs_on(unit, now.scene) and any(map(now.forecast.overruns, before)):
                unit.end_turn(now.scene.now_ns)
                unit.carried_ns = unit.waited_ns

    def _keep_turn(self, now: _Round, unit: Unit, rivals: list[Unit]) -> Verdict:
        """Whether a unit goes on with its turn; `rivals` wait for it, the next one first."""
        if not rivals:
            now.take(unit)
            return _HAS_TURN
        over = self._turn_over(now, unit, rivals)
        if over is not None:
            return over
        left_ns = now.forecast.left_ns(unit)
        if left_ns is not None:
            lead_ns = now.forecast.lead_ns(unit, rivals[0], not unit.gpus.isdisjoint(now.served))
            if left_ns <= lead_ns:
                now.ending.append(unit)
                return Verdict(Say.GO, "its burst is about to end")
            wait_ns = round((left_ns - lead_ns) / unit.activity.fair_share)
            now.wakes.append(now.scene.now_ns + max(LEAST_WAKE_NS, wait_ns))
        now.take(unit)
        return _HAS_TURN

    def _turn_over(self, now: _Round, unit: Unit, rivals: list[Unit]) -> Verdict | None:
        """Whether a turn ends before the burst does: it lasted, or a higher class came."""
        now_ns = now.scene.now_ns
        if now_ns < unit.must_go_until_ns or unit.turn_ns is None:
            return None
        left_ns = now.forecast.left_ns(unit)
        higher = max(rivals, key=lambda u: u.priority)
        # A burst that ends soon is let end: a launched kernel cannot be stopped anyway.
        if higher.priority > unit.turn_class and (
            left_ns is None or now.forecast.worth_interrupting(left_ns, now.forecast.way(unit))
        ):
            return Verdict(Say.WAIT, f"'{higher.name}' of a higher class uses the GPU", primed=True)
        turn_ns = round(now.scene.settings.turn_ns * unit.weight)
        burst_ns = now.forecast.burst_ns(unit)
        if burst_ns is not None:
            turn_ns = max(turn_ns, round(OVERLONG * burst_ns))
        end_ns = unit.turn_ns + turn_ns
        if now_ns < end_ns:
            now.wakes.append(end_ns)
            return None
        settings = now.scene.settings
        if all(effective_class(other, now_ns, settings) < unit.priority for other in rivals):
            # It would be the next again at once.
            return None
        return Verdict(Say.WAIT, "its turn is over and others wait", primed=True, to_tail=True)

    def _give_turns(self, now: _Round, waiting: list[Unit]) -> list[UnitKey]:
        """Let the next go where there is room, the ones after bring their input; the rest waits."""
        scene, settings = now.scene, now.scene.settings
        more = self._unused(now)
        queue: list[UnitKey] = []
        blocked: set[GpuUuid] = set()
        now.count_inputs(waiting)
        ready: set[GpuUuid] = set()
        for unit in waiting:
            ready |= unit.gpus if now.ready(unit) else set()
        for unit in waiting:
            late = now.forecast.setting_up(unit) and not ready.isdisjoint(unit.gpus)
            gaps = self._gaps_for(now, unit, more)
            free = not late and now.room(unit, gaps) and blocked.isdisjoint(unit.gpus)
            if free and not self._breaks_for(now, unit):
                now.verdicts[unit.key] = Verdict(Say.GO, "its turn has come")
                unit.turn_class = effective_class(unit, scene.now_ns, settings)
                unit.go_ahead_of(now.ending, scene.now_ns)
                now.take(unit)
                now.add_input(unit)
                continue
            if effective_class(unit, scene.now_ns, settings) > unit.priority:
                # Aged: nobody behind it may take a GPU it waits for.
                blocked |= unit.gpus
            queue.append(unit.key)
            now.verdicts[unit.key] = self._wait(now, unit)
        return queue

    def _breaks_for(self, now: _Round, unit: Unit) -> bool:
        """Whether a service of a higher class is to have the GPU to itself for a while."""
        own = effective_class(unit, now.scene.now_ns, now.scene.settings)
        until_ns = self._breaks.until_ns(unit, own, now.served)
        if until_ns <= now.scene.now_ns:
            return False
        now.wakes.append(until_ns)
        return True

    def _gaps_for(self, now: _Round, unit: Unit, more: dict[GpuUuid, int]) -> dict[GpuUuid, int]:
        """Gaps in a turn are not for who is of a lower class: it would fill more than them."""
        if not more:
            return more
        scene = now.scene
        own = effective_class(unit, scene.now_ns, scene.settings)
        above = [u for u in scene.units if u.turn_ns is not None and u.priority > own]
        return {gpu: n for gpu, n in more.items() if not any(gpu in u.gpus for u in above)}

    def _wait(self, now: _Round, unit: Unit) -> Verdict:
        """Hold a unit with its input copied, or before that while others copy."""
        forecast, ways, reason = now.forecast, now.scene.settings.ways, _BEHIND
        gripped = unit.gripped
        if now.guarded(unit):
            # Who launches before it is held would be one more beside the service.
            return Verdict(Say.WAIT, f"{reason}, and a service of a higher class is beside")
        begun = unit.wait_ns is not None and not gripped
        if begun or (now.may_input(unit) and not _settled(unit, forecast)):
            now.add_input(unit)
            if gripped or not forecast.ready_to_hold(unit):
                left_ns = forecast.needed_ns(unit) - round(unit.activity.input_ns)
                now.wakes.append(now.scene.now_ns + max(1, left_ns))
                return Verdict(Say.PRIME, "it brings its input while another computes")
            return Verdict(Say.WAIT, f"its input is in; {reason}", primed=True)
        if gripped:
            return _STAYS_PRIMED if unit.primed else _STAYS
        way = self._stop_copy(now, unit) if ways[0] is PauseWay.CUDA_LOCK else None
        primed = way not in ways and forecast.ready_to_hold(unit)
        return Verdict(Say.WAIT, reason, primed=primed, way=way)

    def _stop_copy(self, now: _Round, unit: Unit) -> PauseWay | None:
        """Freezing stops a copy that another's would have to share the link with."""
        checked = any(track.container.health_checked for track in unit.tracks)
        burst_ns = now.forecast.burst_ns(unit)
        if checked or (burst_ns is not None and not now.forecast.pays(burst_ns, PauseWay.DOCKER)):
            return None
        return PauseWay.DOCKER

    def _unused(self, now: _Round) -> dict[GpuUuid, int]:
        """GPUs whose turns leave them idle part of the time take one more; set-up and input of who
        has its turn are no such gap, and of twenty contexts the set-up alone takes 3 s."""
        scene = now.scene
        more: dict[GpuUuid, int] = {}
        for uuid, gpu in scene.gpus.items():
            having = [u for u in scene.units if uuid in u.gpus and u.turn_ns is not None]
            enough = SERVED_USE if uuid in now.served else SATURATED
            if uuid in scene.crowded or any(now.forecast.setting_up(unit) for unit in having):
                continue
            if gpu.slack_ns is None or not having or gpu.load.utilization >= enough:
                continue
            begun_ns = [max(unit.turn_ns or 0, unit.activity.rose_ns) for unit in having]
            since_ns = max(gpu.slack_ns, *begun_ns)
            ready_ns = since_ns + scene.settings.idle_bound_ns
            if scene.now_ns >= ready_ns:
                more[uuid] = now.taken.get(uuid, 0) + 1 - scene.settings.sharers
            else:
                now.wakes.append(ready_ns)
        return more


def _serves(unit: Unit, forecast: Forecast) -> bool:
    """Whether a unit is a service that is at work, or was not long ago: requests come again."""
    activity, now_ns = unit.activity, forecast.scene.now_ns
    if activity.active:
        return unit not in forecast.scene.units and forecast.light(unit) is not None
    ended_ns = activity.ended_ns
    lately = ended_ns is not None and now_ns - ended_ns < SERVES_ON_NS
    known = activity.duty is not None and activity.memory_bytes > 0
    return lately and known and forecast.light(unit) is not None


def _settled(unit: Unit, forecast: Forecast) -> bool:
    """Whether a unit is held as it is to stay until its turn. A lock that has not taken effect
    waits for the copy under way: that is input, too."""
    if not unit.gripped:
        return False
    return unit.taking or (unit.primed and not forecast.lacks_input(unit))


def _has_turn(unit: Unit, scene: Scene) -> bool:
    """Whether a unit goes on as it is; so does one whose kernel runs on though it is held."""
    runs_on = _runs_on(unit, scene)
    return unit.turn_ns is not None or scene.now_ns < unit.must_go_until_ns or runs_on


def _runs_on(unit: Unit, scene: Scene) -> bool:
    """Whether a unit was seen to compute though it was held, not long ago."""
    since_ns = unit.activity.runs_on_ns
    return since_ns is not None and scene.now_ns - since_ns < scene.settings.turn_ns
