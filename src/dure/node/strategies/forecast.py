"""What is left of bursts and inputs, from labels, history and what a unit has done so far."""

from dataclasses import dataclass, field

from dure.domain.containers import PauseWay
from dure.domain.ids import GpuUuid
from dure.domain.units import NS_PER_S, format_duration
from dure.node.activity import Phase
from dure.node.history import LONGER_NS, SAME_PEAK, ImageRecord
from dure.node.strategies.base import Scene
from dure.node.units import Unit

INPUT_PART = 0.45
"""At least this part of a task's memory is taken to be input; of a matrix product 2/3 are."""
LEARNED_PART = {PauseWay.CUDA_LOCK: 0.7, PauseWay.DOCKER: 0.85}
"""Held when this part of the time an input is known to take is over. The lock lets the copy under
way end, so it may come early, but not before the last of several copies. After a freeze the rest is
copied when its turn comes; inputs of one size took 0.45 to 0.52 s on an H200, and who launches
before it is held is beside the others for all of its burst."""
LACKING_PART = 0.6
"""Let go again for more where less than this part was over: the lock came after one of two copies,
which take half of the time each, or somewhat more beside others."""
NEXT_COPY = 0.5
"""Held again when so much of what it had before is over: in the middle of a copy as long."""
MOST_LEAD = 0.3
"""The next is never let go before this part of a burst is left."""
OVERLONG = 2.0
"""A burst so many times longer than known is of another kind, and its end is unknown."""
OVERRUN = 1.1
"""A burst so many times longer than known that still computes is not about to end: nobody can tell
when it will. Lengths of one kind of task are learned to within some per cent. Nor does it pay to
take back who was let go for that where it is longer by less than `LONGER_NS`."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """Looks ahead in one scene."""

    scene: Scene
    _makers: dict[frozenset[GpuUuid], int] = field(default_factory=dict)
    """How many make their contexts on some GPUs, once asked for."""
    _jobs: set[str] = field(init=False)
    """Images of which somebody who is here has been seen to be a job."""

    def __post_init__(self) -> None:
        present = (*self.scene.units, *self.scene.bystanders)
        object.__setattr__(self, "_jobs", {each.image for each in present if each.heavy})

    def way(self, unit: Unit) -> PauseWay:
        """How a unit is held, or would be."""
        return unit.way or self.scene.settings.ways[0]

    def handover_ns(self, unit: Unit) -> int:
        """What it costs to hold a unit and let it go again."""
        return self.scene.settings.handover_ns[self.way(unit)]

    def pays(self, length_ns: int, way: PauseWay) -> bool:
        """Whether a burst is long enough to be worth a pause."""
        settings = self.scene.settings
        frozen = way is PauseWay.DOCKER
        times = settings.freeze_pays_times if frozen else settings.pays_times
        return length_ns >= times * settings.handover_ns[way]

    def worth_interrupting(self, left_ns: int, way: PauseWay) -> bool:
        """Whether so much is left of a burst that it pays to pause it and to let it go on later."""
        settings = self.scene.settings
        return left_ns >= settings.pays_times * settings.handover_ns[way]

    def burst_ns(self, unit: Unit) -> int | None:
        """Length of a unit's bursts if that is clear."""
        if unit.expect_ns is not None:
            return unit.expect_ns
        burst_ns = unit.burst_ns(self.scene.history)
        if burst_ns is not None and unit.activity.work_ns > OVERLONG * burst_ns:
            return None
        return burst_ns

    def light(self, unit: Unit) -> str | None:
        """Why a unit is a service, for whom a pause is never worth it; None: it is none."""
        clear = unit.activity.duty is not None or not self._ambiguous(unit)
        share = unit.share_alone(self.scene.history) if clear else None
        if share is not None and share < self.scene.settings.light_share:
            return f"it uses {share:.0%} of the GPU's time and runs beside others"
        burst_ns = self.burst_ns(unit) if clear else unit.expect_ns
        if burst_ns is not None and not self.pays(burst_ns, PauseWay.CUDA_LOCK):
            return f"its bursts of {format_duration(burst_ns)} are shorter than a wait"
        if share is None and unit.expect_ns is None and unit.publishes and not unit.worked:
            return "it publishes ports and has used little of the GPU so far"
        return None

    def _ambiguous(self, unit: Unit) -> bool:
        """Whether what is remembered of a unit's image may be of others than those like it.

        One image may run services and jobs: who has used all it could get is no service, and who
        only brings its input may be of any size that is known or that is here.
        """
        if unit.heavy:
            return True
        if unit.activity.phase is not Phase.INPUT:
            return False
        if unit.image in self._jobs:
            return True
        known = self.scene.history.candidates(unit.image, unit.activity.memory_bytes)
        return any(self._heavy(record) for record in known)

    def _heavy(self, record: ImageRecord) -> bool:
        """Whether a record is that of a job."""
        if record.share is not None:
            return record.share >= self.scene.settings.light_share
        return record.burst_ns is None or self.pays(record.burst_ns, PauseWay.CUDA_LOCK)

    def left_ns(self, unit: Unit) -> int | None:
        """What is left of a burst; None: nobody knows, or it lasts longer than it should."""
        length_ns = self._length_ns(unit)
        if length_ns is not None and not _launched(unit) and self.without_input(unit):
            return length_ns  # its time so far went into its context: all of the burst is to come
        if length_ns is None or unit.activity.work_ns > OVERLONG * length_ns or self.overruns(unit):
            return None
        return max(0, round(length_ns - unit.activity.work_ns))

    def overruns(self, unit: Unit) -> bool:
        """Whether a burst lasts longer than was known, and may be waited for: bursts like it leave
        no gaps, which others would fill, and its end will show at once."""
        activity, record = unit.activity, unit.record(self.scene.history)
        if activity.phase is not Phase.COMPUTE or activity.gaps is True or record is None:
            return False
        length_ns = self._length_ns(unit) if record.gaps is False else None
        if length_ns is None:
            return False
        return activity.work_ns > max(OVERRUN * length_ns, length_ns + LONGER_NS)

    def _length_ns(self, unit: Unit) -> int | None:
        """Of the present burst, counted as its work is: from the launch or from the input copy."""
        record = unit.record(self.scene.history)
        if unit.expect_ns is not None or record is None:
            return unit.expect_ns
        length_ns = record.left_ns(unit.activity.launched)
        if length_ns is None and unit.activity.launched:
            whole_ns = record.left_ns(held=False)
            if whole_ns is not None:
                input_ns = min(self._input_ns(unit), round(unit.activity.ahead_ns))
                length_ns = max(whole_ns // 2, whole_ns - input_ns)
        return length_ns

    def _learned_ns(self, unit: Unit) -> int | None:
        """The time a unit's input takes, as learned; in proportion where only of a larger task."""
        record, memory_bytes = unit.record(self.scene.history), unit.activity.memory_bytes
        if record is None or record.input_ns is None:
            return None
        context_bytes = self.scene.settings.context_bytes
        if memory_bytes < context_bytes or memory_bytes >= SAME_PEAK * record.peak_bytes:
            return record.input_ns
        part = (memory_bytes - context_bytes // 2) / (record.peak_bytes - context_bytes // 2)
        return round(part * record.input_ns)

    def _input_ns(self, unit: Unit) -> int:
        """The time a unit's input takes, as learned, or at most: all its memory, copied."""
        settings = self.scene.settings
        learned_ns = self._learned_ns(unit)
        if learned_ns is not None:
            return learned_ns
        record = unit.record(self.scene.history)
        peak_bytes = max(unit.activity.peak_bytes, record.peak_bytes if record is not None else 0)
        size = max(0, peak_bytes - settings.context_bytes // 2)
        return round(size / settings.copy_bytes_per_s * NS_PER_S)

    def input_left_ns(self, unit: Unit) -> int:
        """What is left of a unit's set-up and of the copy of its input, at most."""
        activity = unit.activity
        if _launched(unit):
            return 0
        if self.setting_up(unit):
            return self.scene.settings.context_ns + self._input_ns(unit)
        if self.bare(unit):
            return self._input_ns(unit)
        left_ns = max(0, self._input_ns(unit) - round(activity.input_ns))
        if unit.primed and self.way(unit) is PauseWay.CUDA_LOCK:
            # A lock that waited for one copy may have another before it, hardly a longer one.
            left_ns = min(left_ns, round(activity.input_ns))
        return left_ns

    def lead_ns(self, unit: Unit, following: Unit, served: bool) -> int:
        """How long before the end of a burst the next unit is let go.

        Letting go too early costs some switching between the two, too late leaves the GPU idle.
        Where a service runs beside them (`served`), idling is better than a crowd.
        """
        settings = self.scene.settings
        if served and following.primed:
            return self.handover_ns(following)
        length_ns = self.burst_ns(unit) or 0
        results_ns = min(settings.lead_share * length_ns, settings.most_lead_ns)
        ahead_ns = results_ns + self.input_left_ns(following)
        return self.handover_ns(following) + round(min(ahead_ns, MOST_LEAD * length_ns))

    def setting_up(self, unit: Unit) -> bool:
        """Whether a unit makes its CUDA context, as far as its memory tells."""
        activity = unit.activity
        return (
            activity.phase is Phase.INPUT
            and not unit.context_made
            and activity.memory_bytes < self.scene.settings.context_bytes
            and not self._reached(unit)
            and activity.input_ns < self._setup_ns(unit)
        )

    def without_input(self, unit: Unit) -> bool:
        """Whether a unit has a context at most, and none of its input."""
        return self.setting_up(unit) or self.bare(unit)

    def bare(self, unit: Unit) -> bool:
        """Whether a unit is known to have made its context, and has nothing else yet."""
        small = unit.activity.memory_bytes < self.scene.settings.context_bytes
        return unit.context_made and small and not self._reached(unit)

    def _setup_ns(self, unit: Unit) -> int:
        """Who has no more memory than a context after this time has a small input.

        The driver makes contexts by turns, so it is the longer the more are made.
        """
        settings, gpus = self.scene.settings, frozenset(unit.gpus)
        makers = self._makers.get(gpus)
        if makers is None:
            makers = self._makers[gpus] = sum(
                other.activity.phase is Phase.INPUT
                and other.activity.memory_bytes < settings.context_bytes
                and not gpus.isdisjoint(other.gpus)
                for other in self.scene.units
            )
        return settings.input_patience_ns + makers * settings.context_ns

    def _reached(self, unit: Unit) -> bool:
        """Whether a unit has the most memory that tasks like it ever took."""
        memory_bytes = unit.activity.memory_bytes
        known = self.scene.history.candidates(unit.image, memory_bytes)
        if not known:
            return False
        if memory_bytes < self.scene.settings.context_bytes and known[-1].burst_ns is None:
            return False  # a service of the same image, say, that has not ended yet
        return memory_bytes >= SAME_PEAK * known[-1].peak_bytes

    def ready_to_hold(self, unit: Unit) -> bool:
        """Whether a unit that brings its input ahead of its turn is to be held now.

        The CUDA lock takes effect when the copy under way is over, and so before the launch after
        it, but also before a second copy; a freeze takes effect at once. Both come when a good part
        of the input is in.
        """
        return unit.activity.input_ns >= self.needed_ns(unit)

    def needed_ns(self, unit: Unit) -> int:
        """How long a unit has to have run since its memory rose before it is to be held."""
        if unit.activity.phase is Phase.COMPUTE:
            return 0
        return max(self._patience_ns(unit), self._enough_ns(unit))

    def lacks_input(self, unit: Unit) -> bool:
        """Whether too little of a unit's input is in for it to stay held."""
        activity = unit.activity
        if activity.phase is not Phase.INPUT or activity.launched:
            return False
        learned_ns = self._learned_ns(unit)
        if learned_ns is None or self.way(unit) is not PauseWay.CUDA_LOCK:
            return activity.input_ns < self._enough_ns(unit)
        return activity.input_ns < LACKING_PART * learned_ns

    def _patience_ns(self, unit: Unit) -> int:
        """How long a unit's memory has to have stayed: by then its input is being copied."""
        settings = self.scene.settings
        if self._reached(unit):
            return 0
        if self.bare(unit):
            return round(unit.activity.resumed_ns) + settings.input_patience_ns
        if unit.activity.memory_bytes < settings.context_bytes:
            return self._setup_ns(unit)
        # Where more is to come, or may, it gets some time to take it, but not past the time that
        # what it has would take to copy.
        early = self.scene.history.candidates(unit.image, unit.activity.memory_bytes)
        if early and self._learned_ns(unit) is None:
            return settings.input_patience_ns
        return settings.settle_ns

    def _enough_ns(self, unit: Unit) -> int:
        """How much of the time for its input a unit has to have had."""
        learned_ns, settings = self._learned_ns(unit), self.scene.settings
        if learned_ns is None:
            guess_ns = min(INPUT_PART * self._input_ns(unit), settings.input_ahead_ns)
            return round(guess_ns - self._effect_ns(unit))
        part_ns = LEARNED_PART[self.way(unit)] * learned_ns
        resumed_ns = unit.activity.resumed_ns
        if resumed_ns and self.way(unit) is PauseWay.CUDA_LOCK:
            part_ns = min(part_ns, (1 + NEXT_COPY) * resumed_ns)
        return round(min(part_ns, learned_ns - 2 * self._effect_ns(unit)))

    def _effect_ns(self, unit: Unit) -> int:
        """How long a pause takes to take effect, as far as that is known."""
        usual_ns = self.handover_ns(unit) // 2
        if self.way(unit) is PauseWay.CUDA_LOCK or self.scene.freeze_ns is None:
            return usual_ns
        return max(usual_ns, self.scene.freeze_ns)


def _launched(unit: Unit) -> bool:
    """Whether the computation of a unit's burst has begun."""
    return unit.activity.phase is Phase.COMPUTE or unit.activity.launched
