"""When a unit's bursts of GPU work begin and end, judged from what the monitor can see.

Memory and the list of processes are known at once, samples of compute use only 1/6 to 1 s later.
So a burst begins when memory rises (the input comes) or a sample shows work, and ends when memory
falls or, where it stays, when no sample has shown work for longer than the samples lag.
"""

from dataclasses import dataclass
from enum import Enum

from dure.domain.units import MIB, NS_PER_S
from dure.node.history import Burst
from dure.node.settings import NodeSettings

RISE_BYTES = 16 * MIB
"""Smaller changes of memory are housekeeping of the driver."""
FREED_SHARE = 0.25
"""Who gives back this part of what a burst took has its results."""
WORK_SHARE = 0.01
"""A sample above this shows work; NVML counts whole percents."""
DUTY_SPAN_NS = 1 * NS_PER_S
"""Memory of the average use of compute."""
DUTY_SEEN_NS = 1_500_000_000
"""Use of compute is known after this long: the samples' lag and some."""
SUSTAINED_NS = 300_000_000
"""A single window may show as one's own work what was another's: a service at 20 % showed 49 %."""
FULL_WINDOW = 0.99
"""A sample of more than this does not tell when in its window, or before, the work began."""
CLEAR_WORK = 0.5
"""A sample below this may be the making of a context, which computes for 30 to 60 ms: seen on an
H200 as shares of 0.04 to 0.31 while inputs were copied. A second one makes work certain."""
ECHO_NS = 250_000_000
"""For so long after its memory rose a sample may tell of before: a window of 0.19 s and some."""
COPY_SPARE = 2.0
"""Copies show as faint work, too, and as that of another process (0.07 to 0.33 on an H200 on which
nothing computed): no faint sample counts before all memory could be copied at half of the pace."""
FULL_USE = 0.9
"""Unless the GPU is in use like this: then a faint sample is a part of it that several share."""
TOO_LATE = 0.8
"""Part of its time for input after which one is taken to have launched that was held too late."""
LONGEST_WINDOW_NS = 1_100_000_000
"""NVML's samples cover 1 s at most, and are seen at the next look."""
SEEN_LATE_NS = 20_000_000
"""Samples are read every 40 ms, so they are seen this much later than their window ended."""
SATURATED = 0.95
"""A GPU busy for this part of a window is busy all the time."""
UNSEEN = 2.0
"""Of several that share a GPU each window shows one; of three on an H200 one was unseen for 2.3 s.
So silence lasts so many times longer for each of them before it is the end."""
GAPS_SHARE = 0.05
"""Who leaves the GPU idle for more of its time than this has gaps that are worth to be filled: two
that share a GPU lose 7 to 12 % of it, and of each gap samples show only a part."""
ALONE_SHARE = 0.75
"""Who did less of its work than this alone has not shown whether it has gaps."""
RUNS_ON_NS = 1_500_000_000
"""Who is still seen to compute when it has been held for so long runs a kernel that cannot be
stopped: samples tell of 1.1 s ago at most."""


class Phase(Enum):
    """Where a unit is in its work on the GPU."""

    ABSENT = "not on a GPU"
    INPUT = "brings its input"
    COMPUTE = "computes"
    QUIET = "holds memory and does nothing"


@dataclass(slots=True)
class Look:
    """One unit in one table of the monitor; not frozen, as many are made and frozen ones are slow
    to make."""

    now_ns: int
    memory_bytes: int
    share: float
    others: float
    """How many others compute on its GPUs; who uses only part of the time counts as that part."""
    utilization: float
    """Of the busiest of its GPUs."""
    rivals: int = 0
    """How many others have computed there and may still do, held or not."""
    lag_ns: int = 0
    """How old the table is: a look waits for a driver that makes contexts."""


@dataclass(slots=True)
class Activity:
    """The bursts of one unit: told of each table, and of all time that passes."""

    phase: Phase = Phase.ABSENT
    memory_bytes: int = 0
    share: float = 0.0
    ended_ns: int | None = None
    """When its last burst ended."""
    peak_bytes: int = 0
    work_ns: float = 0.0
    """Length of the present burst so far as it would be alone, without its allocations."""
    input_ns: float = 0.0
    """Time it has run since its memory rose: for its input copy, at first."""
    launch_ns: int | None = None
    """Of that, before its first launch, where that is clear: to be learned, and then forgotten."""
    resumed_ns: float = 0.0
    """Of that, before it was let go to bring more of it; 0: it was not."""
    launched: bool = False
    """It was let go with its input copied: the burst counts from there."""
    rose_ns: int = 0
    """When its memory rose last while it brought its input."""
    ahead_ns: float = 0.0
    """Time it had run for its input when it was let go so."""
    duty: float | None = None
    """Part of the GPU's time it uses when it may."""
    runs_on_ns: int | None = None
    """Since when it is known to compute whether it is held or not; None: it is not."""
    _idle: bool = False
    """It computes, and the last table showed nothing at all on its GPU."""
    _idle_ns: float = 0.0
    """For how long that was so within its burst."""
    _freed_ns: int = 0
    """When it was let go last."""
    _base_bytes: int = 0
    _others: float = 0.0
    _rivals: int = 0
    _kept_ns: int | None = None
    """Since when it is held; None: it is not."""
    _utilization: float = 0.0
    _seen_ns: int | None = None
    _straight: bool = False
    """It has not been held since its memory rose, nor had samples of an earlier burst."""
    _first_work: tuple[float, float] | None = None
    """Its time for input when the first sample showed work, and the share in that."""
    _faint: float | None = None
    """The first sample of work where that is faint: it may not be its own."""
    _late: bool = False
    """It was held too late and computed meanwhile: its length is not known."""
    _echo: float | None = None
    """The last faint sample that may have been of the making of its context."""
    _alive_ns: int = 0
    """Last sign of life: memory changed, a sample of work, or it was let go."""
    _deaf_until_ns: int = 0
    """Samples until then still tell of the burst before."""
    _duty_sum_ns: float = 0.0
    _busy_ns: float = 0.0
    """For how long its samples have been clear ones."""
    _duty: float = 0.0

    @property
    def active(self) -> bool:
        """In a burst."""
        return self.phase is Phase.COMPUTE or self.phase is Phase.INPUT

    @property
    def gaps(self) -> bool | None:
        """Whether its burst leaves the GPU idle for a good part of its time; None: that does not
        show, as others compute beside it."""
        ran_ns = self.input_ns - (self.ahead_ns if self.launched else 0.0)
        if self._idle_ns > GAPS_SHARE * ran_ns:
            return True
        return False if self.work_ns >= ALONE_SHARE * ran_ns else None

    @property
    def fair_share(self) -> float:
        """Part of the GPU's time it can get beside those who compute there, too."""
        return 1.0 / (1.0 + self._others)

    def let_go(self, now_ns: int, *, launch: bool) -> None:
        """It was held and may go on; `launch`: with its input copied, for its turn."""
        self._alive_ns = max(self._alive_ns, now_ns)
        self._freed_ns, self._kept_ns = now_ns, None
        if launch and self.phase is Phase.INPUT:
            self.work_ns, self.launched, self.ahead_ns = 0.0, True, self.input_ns
        elif not launch:
            self.resumed_ns = self.input_ns

    def advance(self, now_ns: int, *, held: bool) -> None:
        """Time has passed; `held`: it was kept from the GPU all the while."""
        elapsed = now_ns - self._seen_ns if self._seen_ns is not None else 0
        self._seen_ns = now_ns
        self._straight = self._straight and not held
        if held or elapsed <= 0 or not self.active:
            return
        self.input_ns += elapsed
        self._idle_ns += elapsed if self._idle else 0
        self.work_ns += elapsed / (1 + self._others)
        if self._works(now_ns):
            self._alive_ns = now_ns
            self._learn_duty(elapsed)

    def look(self, look: Look, settings: NodeSettings, *, kept: bool) -> Burst | None:
        """Take in a table; returns the burst that ended, if one did."""
        before = self.memory_bytes
        rose = look.memory_bytes - before >= RISE_BYTES or look.memory_bytes > before == 0
        self.memory_bytes, self.share = look.memory_bytes, look.share
        self._others, self._utilization = look.others, look.utilization
        self._rivals = look.rivals
        if rose or before - look.memory_bytes >= RISE_BYTES or self._works(look.now_ns):
            self._alive_ns = look.now_ns
        if self.active:
            self._notice_idling(look, kept=kept)
            self._notice_running_on(look.now_ns, kept=kept)
            return self._go_on(look, rose, settings, kept=kept)
        self._kept_ns = self.runs_on_ns = None
        self._base_bytes = min(self._base_bytes, look.memory_bytes)
        if look.memory_bytes == 0:
            self.phase = Phase.ABSENT
        elif rose or (self._works(look.now_ns) and not kept):
            self.phase = Phase.INPUT if rose else Phase.COMPUTE
            self.rose_ns = look.now_ns if rose else self.rose_ns
            self.peak_bytes = look.memory_bytes
            self.work_ns = self.input_ns = float(look.lag_ns if rose else 0)
            self.resumed_ns = self._duty_sum_ns = 0.0
            self.launched, self.launch_ns = False, None
            self._straight = rose and look.now_ns >= self._deaf_until_ns
            self._first_work = self._faint = self._echo = None
            self._late = self._idle = False
            self._idle_ns = 0.0
        return None

    def _notice_idling(self, look: Look, *, kept: bool) -> None:
        """Whether nothing at all is on its GPU; who was let go just now does not show yet."""
        idle = look.utilization <= WORK_SHARE and not self._works(look.now_ns)
        fresh = kept or look.now_ns - self._freed_ns < LONGEST_WINDOW_NS
        self._idle = idle and not fresh and self.phase is Phase.COMPUTE

    def _notice_running_on(self, now_ns: int, *, kept: bool) -> None:
        """Whether it computes though it has been held for longer than samples lag."""
        if not kept:
            self._kept_ns = None
        elif self._kept_ns is None:
            self._kept_ns = now_ns
        elif now_ns - self._kept_ns >= RUNS_ON_NS and self.share >= CLEAR_WORK:
            self.runs_on_ns = now_ns

    def _go_on(self, look: Look, rose: bool, settings: NodeSettings, *, kept: bool) -> Burst | None:
        """One table within a burst."""
        self.peak_bytes = max(self.peak_bytes, look.memory_bytes)
        if rose and self.phase is Phase.INPUT:
            self.rose_ns = look.now_ns
            self.work_ns = self.input_ns = float(look.lag_ns)
            self.resumed_ns = 0.0
            self._straight = look.now_ns >= self._deaf_until_ns
        self._hear(look.now_ns, settings, kept=kept)
        taken = self.peak_bytes - self._base_bytes
        freed = self.peak_bytes - look.memory_bytes
        if look.memory_bytes == 0:
            return self._end(look.now_ns, Phase.ABSENT, 0)
        if taken >= RISE_BYTES and freed >= max(FREED_SHARE * taken, RISE_BYTES):
            self._deaf_until_ns = look.now_ns + settings.window_ns
            return self._end(look.now_ns, Phase.QUIET, 0)
        return None

    def _hear(self, now_ns: int, settings: NodeSettings, *, kept: bool) -> None:
        """Take in the last sample of its work."""
        if not self._works(now_ns):
            self._faint = None
            if self.phase is Phase.INPUT:
                self._first_work = None
            return
        if self.phase is Phase.INPUT and self.share < CLEAR_WORK:
            if self.input_ns < ECHO_NS:
                self._echo = self.share
            if self._echo == self.share:
                return
            fresh = self._faint != self.share
            first = self._faint is None
            self._faint = self.share
            if self._straight and fresh:
                self._first_work = self.input_ns, self.share
            if first or not fresh or self._copies(settings, kept=kept):
                return
        self._find_launch(kept=kept)
        self._late = self._late or (kept and self.phase is Phase.INPUT and not self.launched)
        self.phase = Phase.COMPUTE

    def _copies(self, settings: NodeSettings, *, kept: bool) -> bool:
        """Whether a faint sample may well be of copies, its own or those of others."""
        alone = self._utilization < FULL_USE
        return alone and (kept or self.input_ns < self._copied_ns(settings))

    def _copied_ns(self, settings: NodeSettings) -> float:
        """When all its memory has been copied; who has but a context may still have to make it."""
        if self.peak_bytes < settings.context_bytes:
            return settings.idle_bound_ns
        size = self.peak_bytes - self._base_bytes
        copy_ns = size / settings.copy_bytes_per_s * NS_PER_S
        return min(COPY_SPARE * copy_ns, settings.idle_bound_ns)

    def _find_launch(self, *, kept: bool) -> None:
        """When it launched: as long before the first sample of work as that has work in it.

        How long the sample's window is shows when the next one comes with another share.
        """
        first = self._first_work is None and self.phase is Phase.INPUT
        if first and self._straight and self.share < FULL_WINDOW:
            self._first_work = self.input_ns, self.share
        elif first and kept and not self.launched:
            # It is held and computes: it was held too late, by a time that is too long.
            self.launch_ns = round(TOO_LATE * self.input_ns)
        elif self._first_work is not None and self.share != self._first_work[1]:
            seen_ns, share = self._first_work
            window_ns = self.input_ns - seen_ns
            self._first_work = None
            if self._straight and window_ns <= LONGEST_WINDOW_NS:
                self.launch_ns = max(0, round(seen_ns - SEEN_LATE_NS - share * window_ns))

    def silent_at_ns(self, settings: NodeSettings) -> int:
        """When a burst is over if there is no further sign of life."""
        if self.phase is not Phase.COMPUTE:
            return self._alive_ns + settings.idle_bound_ns
        if self._utilization < SATURATED or self.share > WORK_SHARE:
            return self._alive_ns + settings.quiet_ns
        # Others compute, and samples may be of them only.
        unseen_ns = round((1 + UNSEEN * max(1, self._rivals)) * settings.quiet_ns)
        return self._alive_ns + min(unseen_ns, settings.turn_ns)

    def listen(self, now_ns: int, settings: NodeSettings) -> Burst | None:
        """End a burst that has been silent for too long; not asked while it is kept."""
        if not self.active or now_ns < self.silent_at_ns(settings):
            return None
        computed = self.phase is Phase.COMPUTE
        burst = self._end(self._alive_ns, Phase.QUIET, now_ns - self._alive_ns)
        return burst if computed else None

    def _end(self, ended_ns: int, phase: Phase, silence_ns: int) -> Burst | None:
        self.phase, self.ended_ns = phase, ended_ns
        self._base_bytes = self.memory_bytes
        length = round(self.work_ns - silence_ns)
        if length <= 0 or self._late:
            return None
        gaps = True if silence_ns else self.gaps
        return Burst(self.peak_bytes, length, self.launched, self.duty, gaps)

    def _works(self, now_ns: int) -> bool:
        """Whether the last sample shows work, and of this burst."""
        return self.share > WORK_SHARE and now_ns >= self._deaf_until_ns

    def _learn_duty(self, elapsed: int) -> None:
        """Average the use of compute while the GPU had room for more."""
        if self._utilization >= SATURATED > self.share:
            # Somebody else computes, too: maybe one that is held and whose kernel runs on.
            return
        if self._others > 0 and self._utilization >= SATURATED:
            return
        span = min(self._duty_sum_ns, DUTY_SPAN_NS)
        self._duty += elapsed / (span + elapsed) * (self.share - self._duty)
        self._duty_sum_ns += elapsed
        self._busy_ns = self._busy_ns + elapsed if self.share >= CLEAR_WORK else 0.0
        if self._duty_sum_ns >= DUTY_SEEN_NS:
            # Rising samples are the lag of a burst that began: the larger figure counts.
            self.duty = max(self._duty, self.share if self._busy_ns >= SUSTAINED_NS else 0.0)
