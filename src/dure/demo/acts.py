"""What happens on the stage: work comes, load rises, a policy changes, a price spikes, work moves.

Everything is done by the client, as a user's programs would do it, and everything that follows is
found out by asking. Nothing here decides: what a line tells, Dure did.
"""

from dataclasses import dataclass, field

from dure.api.job_views import JobDocument
from dure.api.jobs import Gang, JobSpec, Resources, Serving, Work
from dure.api.migrations import MigrationDocument
from dure.client.advice import AdviceLine
from dure.client.api import AgentClient
from dure.client.fleet import calls
from dure.client.schema import EventLine, LatencyPromise, TenantPatch
from dure.demo.eyes import Eyes, Load
from dure.demo.processes import DemoError
from dure.demo.stage import HOME, TENANT, Stage, spec_of
from dure.demo.story import Level, Story
from dure.devices import library
from dure.domain.fleet.lifecycle import JobPhase
from dure.domain.fleet.migrations import MoveStep
from dure.domain.fleet.workloads import WorkloadKind
from dure.domain.units import NS_PER_MS

TARGET_MS, PERCENTILE = 60, 95.0
SPIKE = 8.0
"""What the price of the cheapest cluster is multiplied by."""
PLACED_S, RISK_S, SWITCH_S, MOVE_S = 150.0, 60.0, 150.0, 90.0
"""How long each step may take; a few seconds on a quiet machine, more where loops must be compiled
first."""
_AFTER_S = 12.0
"""What a switch did is measured over so long."""
_REQUEST = ("--kernels", "10", "--work-us", "1200")
_TRAINING = ("--kernels", "8", "--work-us", "5000", "--sync-every", "2")
_BATCH = ("--kernels", "8", "--work-us", "3000", "--sync-every", "2")
_LONG = ("--seconds", "3600")


@dataclass(slots=True)
class Play:
    """The acts, one after another."""

    stage: Stage
    eyes: Eyes
    load: Load
    seed: int
    jobs: dict[str, str] = field(default_factory=dict)
    """Ids by name."""

    @property
    def story(self) -> Story:
        """Where it is told."""
        return self.stage.story

    @property
    def agent(self) -> AgentClient:
        """Of the GPU that the service shares."""
        return self.stage.agents[HOME.name]

    def open(self) -> None:
        """A service comes, finds its place and is promised a latency."""
        self._submit(self._chat())
        self._until_placed("chat")
        self.story.until("the service to ask for the GPU", self.eyes.sees_chat, PLACED_S)
        promise = LatencyPromise(target_ns=TARGET_MS * NS_PER_MS, percentile=PERCENTILE)
        tenant = self.eyes.chat().name
        self.agent.change(tenant, TenantPatch(latency_slo=promise, tenant_class="guaranteed"))
        self.story.tell(
            Level.KERNEL,
            f"chat is promised p{PERCENTILE:g} ≤ {TARGET_MS} ms",
            f"it has the GPU of {HOME.name} to itself, under {HOME.policy}, which wants jobs "
            "done soon",
        )

    def rush(self) -> None:
        """Others come, load rises, the promise is in danger, and another policy is put in force."""
        for spec in (self._train(), self._embed()):
            self._submit(spec)
        for name in ("train", "embed"):
            self._until_placed(name)
        self.load.rush(self.story.now_s)
        self.story.tell(
            Level.KERNEL,
            f"load of chat rises from {self.load.calm_per_s:g} to {self.load.rush_per_s:g} "
            "requests a second",
            f"within {self.load.ramp_s:g} s, beside a training and a batch job",
        )
        self._until_threatened()
        self._until_switched()
        self._tell_what_it_did()

    def spike(self) -> None:
        """A price rises, and work goes elsewhere by itself."""
        town = self.stage.centre.do(calls.get_cluster(HOME.name))
        dearer = spec_of(HOME, SPIKE)
        self.stage.centre.do(calls.put_cluster(HOME.name, dearer, town.revision))
        self.eyes.prices[HOME.name] = price = HOME.price * SPIKE
        self.story.tell(
            Level.FLEET,
            f"price of {HOME.name} spikes from ${HOME.price:.2f} to ${price:.2f} a device-hour",
            "its tariff was changed over the centre's interface",
        )
        self._until_moved("train")

    # Jobs

    def _submit(self, spec: JobSpec) -> None:
        (self.jobs[spec.name],) = self.stage.centre.do(calls.submit(spec)).ids

    def _chat(self) -> JobSpec:
        return JobSpec(
            name="chat",
            kind=WorkloadKind.SERVING,
            tenant=TENANT,
            command=[
                *(str(library.path("dure-tenant")), "serve", *_LONG, *_REQUEST),
                *("--report", "--rate", str(self.load.calm_per_s)),
                *("--rate-file", str(self.load.file), "--seed", str(self.seed)),
            ],
            resources=Resources(memory="8GB"),
            service=Serving(
                requests_per_second=10.0,
                replica_requests_per_second=60.0,
                latency="1s",
                service_time="15ms",
                most=1,
                load_time="1s",
                reference="h200",
            ),
            grace="2s",
            # Its users are near: others go elsewhere.
            clusters=[HOME.name],
            pinned=True,
        )

    def _train(self) -> JobSpec:
        saved = str(self.stage.folder / "train.saved")
        return JobSpec(
            name="train",
            kind=WorkloadKind.TRAINING,
            tenant=TENANT,
            command=[
                *(str(library.path("dure-tenant")), "train", *_LONG, *_TRAINING),
                *("--save", saved),
            ],
            resources=Resources(memory="40GB"),
            work=Work(time="10h", reference="h200"),
            gang=Gang(checkpoint_every="1m", checkpoint_size="2GiB"),
            grace="2s",
        )

    def _embed(self) -> JobSpec:
        return JobSpec(
            name="embed",
            kind=WorkloadKind.BATCH,
            tenant=TENANT,
            command=[str(library.path("dure-tenant")), "train", *_LONG, *_BATCH],
            resources=Resources(memory="8GB"),
            work=Work(time="20m", reference="h200"),
            grace="2s",
        )

    def _until_placed(self, name: str) -> None:
        job = self.jobs[name]

        def runs() -> bool:
            found = self._job(job)
            if found.phase in (JobPhase.FAILED, JobPhase.CANCELLED):
                raise DemoError(f"{name} did not run: {found.reason}")
            return found.phase is JobPhase.RUNNING

        self.story.until(f"{name} to run", runs, PLACED_S)
        where = str(self._job(job).cluster)
        if where != HOME.name:
            raise DemoError(f"{name} went to {where}, where nobody expected it")
        self.eyes.places[name] = where
        self.story.tell(Level.FLEET, f"{name} runs in {where}", self._reason(job))

    def _reason(self, job: str) -> str:
        explained = self.stage.centre.do(calls.explain_job(job)).attempts[0].explanation
        if explained is None:
            return "the first place that had room"
        said = f"${explained.money:.2f} for its run"
        other = explained.runner_up
        if other is not None:
            said += f", in {other.site.partition('/')[0]} it would be ${other.total:.2f}"
        return said

    def _job(self, job: str) -> JobDocument:
        self.stage.troupe.refuse_dead()
        return self.stage.centre.do(calls.get_job(job))

    # The rush

    def _until_threatened(self) -> None:
        found: list[EventLine] = []

        def raised() -> bool:
            found.extend(self.eyes.risks())
            return bool(found)

        self.story.until("a risk to chat's promise", raised, RISK_S)
        risk = found[0]
        said = risk.text.partition(": ")[2] or risk.text
        self.story.tell(Level.KERNEL, "the promise to chat is in danger", said)

    def _until_switched(self) -> None:
        found: list[AdviceLine] = []

        def switched() -> bool:
            self.stage.troupe.refuse_dead()
            (gpu,) = self.agent.advice().gpus
            found.extend(each for each in gpu.history if each.kind == "switched")
            return bool(found)

        self.story.until("the advisor to switch the policy", switched, SWITCH_S)
        advice = found[0]
        self.story.tell(
            Level.KERNEL,
            f"the advisor switches {advice.before.policy} → {advice.after.policy}",
            self.eyes.in_words(advice.reason),
        )

    def _tell_what_it_did(self) -> None:
        """What is measured after the switch, and what the advisor makes of it."""
        switched_s = self.story.now_s
        self.story.until(
            "what the switch did", lambda: self.story.now_s > switched_s + _AFTER_S, 2 * _AFTER_S
        )
        after = self.eyes.kept(switched_s + _AFTER_S / 2, self.story.now_s)
        if after is not None:
            self.story.tell(
                Level.KERNEL,
                f"{after[0]:.1%} of chat's requests are on time",
                f"{after[1]:.0f} ms at the {PERCENTILE:g}th percentile, at "
                f"{self.load.per_s(self.story.now_s):.0f} requests a second",
            )
        (gpu,) = self.agent.advice().gpus
        for line in gpu.history:
            if line.kind in ("kept", "rolled back"):
                self.story.tell(Level.KERNEL, f"the switch was {line.kind}", line.reason)

    # The move

    def _until_moved(self, name: str) -> None:
        job, told = self.jobs[name], set[MoveStep]()

        def over() -> bool:
            move = self._job(job).migration
            if move is None:
                return False
            if move.step not in told:
                told.add(move.step)
                self._tell_step(name, move, first=len(told) == 1)
            if move.step.ended and move.step is not MoveStep.DONE:
                raise DemoError(f"{name} did not move: {move.reason}")
            return move.step is MoveStep.DONE

        self.story.until(f"{name} to move", over, MOVE_S)
        where = str(self._job(job).cluster)
        self.eyes.places[name] = where
        self.story.until(
            f"{name} to resume from its checkpoint", lambda: bool(self._resumed(job)), PLACED_S
        )
        self.story.tell(
            Level.FLEET, f"{name} runs in {where}", f"{self._resumed(job)}, no step lost"
        )

    def _resumed(self, job: str) -> str:
        """What its program said when it found its checkpoint; empty: nothing yet."""
        said = b"".join(self.stage.centre.logs(job)).decode(errors="replace").splitlines()
        return next((line for line in said if line.startswith("resumed at step")), "")

    def _tell_step(self, name: str, move: MigrationDocument, *, first: bool) -> None:
        if first:
            self.story.tell(
                Level.FLEET,
                f"{name} moves {move.from_cluster} → {move.to_cluster}",
                f"saves ${move.saving:.2f} net of the move; it is asked for a checkpoint",
            )
        elif not move.step.ended:
            self.story.tell(Level.FLEET, f"{name}: {move.step.value}", move.reason)
