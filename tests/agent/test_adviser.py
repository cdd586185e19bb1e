"""The adviser beside one GPU: tenants and readings reach it, dry runs are real, switches happen."""

import time
from collections.abc import Iterator

import pytest

from dure.agent.actor import Actor
from dure.agent.advice_desk import AdviceDesk
from dure.agent.adviser import Adviser, Desk
from dure.agent.dry_run_process import Question
from dure.agent.dry_runs import DryRuns
from dure.agent.events import EventLog
from dure.agent.gpu import Gpu, GpuIdentity
from dure.client.schema import WhyAnswer
from dure.devices.plane import PlaneDevice, PlaneSegments
from dure.domain.adaptation import AdaptBy, Choice, DryRunEnded, Foretold
from dure.domain.catalogue import accelerator
from dure.domain.errors import DureError
from dure.domain.events import ReadingsTaken
from dure.domain.ids import TenantId
from dure.domain.tenant import LatencySlo, Slo, Tenant, TenantClass
from dure.domain.units import NS_PER_MS, NS_PER_S
from dure.kernel.objective import ScoreMeter
from dure.kernel.snapshot import recent, take_snapshot
from tests.kernel.factories import TICK_NS, joined, sample, served, service, tick, working

WEB = Tenant(
    TenantId("web"),
    tenant_class=TenantClass.GUARANTEED,
    slo=Slo(latency=LatencySlo(30 * NS_PER_MS)),
)
JOB = Tenant(TenantId("job"))
WAIT_S = 240.0
"""For a dry run on a machine that is busy and has to compile first."""


class StillActor(Actor):
    """Does what it is asked, and ticks only then."""

    def _tick(self) -> None:
        pass


@pytest.fixture
def actor() -> Iterator[Actor]:
    profile = accelerator("h200")
    device = PlaneDevice(profile.sms, profile.sm_granule, profile.memory_bytes, b"\1" * 16)
    identity = GpuIdentity(0, "GPU-x", "H200", b"\1" * 16, profile, side_by_side=False)
    gpu = Gpu(identity, PlaneSegments(device), EventLog(), "hybrid", (), time.monotonic_ns)
    for tenant in (WEB, JOB):
        gpu.join(tenant, free=False)
        gpu.add_client(tenant.id, 1000 + len(gpu.clients), "program")
    made = StillActor(gpu)
    made.start()
    yield made
    made.stop()


def read(adviser: Adviser, desk: Desk, seconds: float) -> None:
    """Readings of a service that is late and a job, as ticks would have left them."""
    begin_ns = adviser.clock()
    for number in range(round(seconds * NS_PER_S / TICK_NS)):
        web = served("web", requests=2, latency_ns=50 * NS_PER_MS, late=2)
        event = ReadingsTaken(begin_ns + number * TICK_NS, (web, working("job", 0.5)))
        adviser.hear(desk.actor.uuid, event)
    adviser.look(desk)


def answered(adviser: Adviser, desk: Desk) -> None:
    until = time.monotonic() + WAIT_S
    while desk.waiting is not None and time.monotonic() < until:
        time.sleep(0.02)
        adviser.look(desk)
    assert desk.waiting is None


def told(actor: Actor) -> list[str]:
    return [line.text for line in actor.gpu.events.lines() if line.kind == "advice"]


def foretell(adviser: Adviser, desk: Desk, slo: float, hybrid: float) -> None:
    """As if a dry run had just been asked for and had found this."""
    found = (Foretold(Choice("slo"), slo), Foretold(Choice("hybrid"), hybrid))
    adviser._tell(desk, DryRunEnded(adviser.clock(), found))


def test_only_who_has_a_process_on_the_gpu_counts(actor: Actor) -> None:
    adviser = Adviser((actor,), AdaptBy.ADVISE)
    desk = adviser.desks["GPU-x"]
    adviser.look(desk)
    assert set(desk.advisor.tenants) == {WEB.id, JOB.id}
    slot, client = next((s, c) for s, c in actor.gpu.clients.items() if c.tenant == JOB.id)
    actor.call(lambda gpu: gpu.drop_client(slot, client.turn, alive=False))
    adviser.look(desk)
    assert set(desk.advisor.tenants) == {WEB.id}


def test_a_dry_run_is_done_by_another_process_and_heard(actor: Actor) -> None:
    adviser = Adviser((actor,), AdaptBy.ADVISE)
    desk = adviser.desks["GPU-x"]
    adviser.look(desk)
    try:
        read(adviser, desk, 4.0)
        assert desk.waiting is not None
        answered(adviser, desk)
    finally:
        adviser.stop()
    assert desk.trouble == ""
    assert {each.choice.policy for each in desk.foretold} == {"jct", "slo", "hybrid"}
    assert desk.dry_runs == 1


def test_auto_switches_tells_why_and_says_so_to_whoever_asks(actor: Actor) -> None:
    adviser = Adviser((actor,), AdaptBy.AUTO)
    desk = adviser.desks["GPU-x"]
    adviser._runs = _Silent()
    adviser.look(desk)
    read(adviser, desk, 4.0)
    foretell(adviser, desk, slo=0.9, hybrid=0.3)
    assert actor.gpu.policy == "slo"
    assert told(actor)[-1].startswith("switched: hybrid → slo: ")
    answer = AdviceDesk(adviser).answer()
    assert answer.adapt == "auto"
    assert answer.gpus[0].inforce.policy == "slo"
    assert answer.gpus[0].history[-1].kind == "switched"
    names = {reading.metric.name for reading in AdviceDesk(adviser).read()}
    assert "dure_gpu_adaptations_total" in names
    adviser.stop()


def test_why_a_tenant_waits_mentions_what_the_advisor_did_on_its_gpu(actor: Actor) -> None:
    adviser = Adviser((actor,), AdaptBy.AUTO)
    desk = adviser.desks["GPU-x"]
    adviser._runs = _Silent()
    adviser.look(desk)
    read(adviser, desk, 4.0)
    foretell(adviser, desk, slo=0.9, hybrid=0.3)
    at_s = desk.said[-1][0]

    def advice(gpu: str | None, later_s: float) -> tuple[str, ...]:
        plain = WhyAnswer(
            tenant="train",
            window_s=10.0,
            sentences=("train was not held.",),
            held_ns=0,
            held_share=0.0,
            gpu_share=1.0,
            reasons=(),
            holders=(),
            longest_hold_ns=0,
            gpu=gpu,
        )
        asked = AdviceDesk(adviser, now_s=lambda: at_s + later_s).added_to(plain)
        assert asked.sentences == plain.sentences
        return asked.advice

    (said,) = advice("GPU-x", 12.0)
    assert said.startswith("12 s ago the advisor switched hybrid → slo: ")
    assert desk.said[-1][1].reason in said
    assert advice("GPU-x", 3600.0) == ()
    assert advice("GPU-y", 12.0) == advice(None, 12.0) == ()
    adviser.stop()


def test_advice_is_shown_and_nothing_is_switched(actor: Actor) -> None:
    adviser = Adviser((actor,), AdaptBy.ADVISE)
    desk = adviser.desks["GPU-x"]
    adviser._runs = _Silent()
    adviser.look(desk)
    read(adviser, desk, 4.0)
    foretell(adviser, desk, slo=0.9, hybrid=0.3)
    assert actor.gpu.policy == "hybrid"
    answer = AdviceDesk(adviser).answer()
    assert answer.gpus[0].proposal is not None
    assert answer.gpus[0].proposal.after.policy == "slo"
    assert answer.gpus[0].proposal.gain == pytest.approx(0.6)
    assert answer.gpus[0].objective is not None
    adviser.stop()


def test_a_dry_run_that_fails_is_told_once_and_harms_nobody(actor: Actor) -> None:
    adviser = Adviser((actor,), AdaptBy.AUTO)
    desk = adviser.desks["GPU-x"]
    adviser._runs = _Silent()
    adviser.look(desk)
    read(adviser, desk, 4.0)
    answered(adviser, desk)
    assert desk.trouble
    assert len([text for text in told(actor) if "no advice" in text]) == 1
    assert actor.gpu.policy == "hybrid"
    adviser.stop()


def test_where_adaptation_is_off_nothing_is_heard_or_started(actor: Actor) -> None:
    adviser = Adviser((actor,), AdaptBy.OFF)
    adviser.start()
    desk = adviser.desks["GPU-x"]
    adviser.hear("GPU-x", ReadingsTaken(1, ()))
    assert not desk.heard
    assert AdviceDesk(adviser).answer().adapt == "off"
    adviser.stop()


def test_a_process_for_dry_runs_that_died_is_started_again() -> None:
    machine, meter = joined(service("web"), JOB), ScoreMeter()
    for number in range(1, 60):
        readings = (served("web", requests=1, latency_ns=NS_PER_MS), working("job", 0.5))
        tick(machine, number, *readings)
        meter.add(number * TICK_NS, readings)
    machine.tracks[JOB.id].book.learn(sample("job", 200_000))
    question = Question(take_snapshot(machine, recent(meter), 60 * TICK_NS), (Choice("slo"),), 1)
    runs = DryRuns()
    try:
        assert len(runs.ask(question)) == 1
        assert runs._process is not None
        runs._process.kill()
        runs._process.wait()
        assert len(runs.ask(question)) == 1
    finally:
        runs.stop()


class _Silent(DryRuns):
    """A process that never answers."""

    def ask(self, question: Question) -> tuple[Foretold, ...]:
        raise DureError("a dry run did not end", "see the agent's log")
