from pathlib import Path

import numpy as np
import pytest

from dure.domain.errors import InputError
from dure.domain.tenant import Goal
from dure.sim.kernel.load import Arrivals, ClosedLoop
from dure.sim.kernel.modes import BASELINES
from dure.sim.kernel.physics import Physics
from dure.sim.kernel.results import measure_alone
from dure.sim.kernel.scenario import Overrides, Scenario, read_scenario
from dure.sim.kernel.scenario_file import MOST_TENANTS
from dure.sim.kernel.solo import solo_request_ns
from tests.sim.kernel.scenarios import Fields, loop, scenario, service, written

EXAMPLES = Path(__file__).parents[3] / "examples" / "scenarios"
NAN, INFINITY = float("nan"), float("inf")


def read(folder: Path, fields: Fields, **overrides: object) -> Scenario:
    return read_scenario(written(folder, fields), Overrides(**overrides))  # type: ignore[arg-type]


def one(tenant: Fields) -> Fields:
    return scenario(tenants=[tenant])


def kernel(**changes: object) -> Fields:
    return one(loop(kernels=[{"blocks": 100, "duration": "1ms"} | changes]))


BAD: dict[str, tuple[Fields, str, str]] = {
    # case: what is written, the field blamed, a part of the sentence
    "unknown field": (scenario(modus=["slo"]), "modus", "did you mean 'modes'?"),
    "unknown tenant field": (
        one(service(wieght=2)),
        "tenants[web].wieght",
        "did you mean 'weight'?",
    ),
    "unknown nested field": (
        one(service(slo={"latencies": "5ms"})),
        "slo.latencies",
        "did you mean 'latency'?",
    ),
    "unlike any field": (scenario(zzz=1), "zzz", "use one of title, gpu"),
    "missing field": ({"gpu": "h200", "duration": "1s"}, "tenants", "is missing; add"),
    "no tenants": (scenario(tenants=[]), "tenants", "is empty; give at least 1"),
    "two of a name": (scenario(tenants=[loop(), loop()]), "tenants[train].name", "already taken"),
    "odd name": (one(service(name="a b")), "name", "cannot be a name"),
    "number as name": (one(service(name=5)), "name", "not text; put it in quotes"),
    "too many tenants": (
        scenario(tenants=[loop(name=f"t{i}") for i in range(MOST_TENANTS + 1)]),
        "tenants",
        f"use at most {MOST_TENANTS}",
    ),
    "unknown gpu": (scenario(gpu="h2000"), "gpu", "not a known accelerator; use one of h200"),
    "too few compute units": (scenario(gpu={"name": "h200", "sms": 4}), "gpu.sms", "too little"),
    "unknown mode": (scenario(modes=["mps", "sloo"]), "modes[1]", "did you mean 'slo'?"),
    "mode twice": (scenario(modes=["slo", "slo"]), "modes[1]", "is there twice"),
    "unknown policy": (
        scenario(switches=[{"at": "10ms", "policy": "fifo"}], modes=["switching"]),
        "switches[0].policy",
        "'fifo' is not a policy; use one of jct",
    ),
    "unknown starting policy": (
        scenario(policy="fifo", switches=[{"at": "10ms", "policy": "slo"}], modes=["switching"]),
        "policy",
        "'fifo' is not a policy",
    ),
    "unknown parameter": (
        scenario(modes=[{"mode": "hybrid", "parameters": {"fair": 0.5}}]),
        "modes[0].parameters",
        "has no parameter 'fair'",
    ),
    "parameter NaN": (
        scenario(modes=[{"mode": "hybrid", "parameters": {"fairness": NAN}}]),
        "parameters.fairness",
        "not a finite number",
    ),
    "baseline with parameters": (
        scenario(modes=[{"mode": "mps", "parameters": {"fairness": 0.5}}]),
        "modes[0]",
        "takes no",
    ),
    "switching without switches": (
        scenario(modes=["switching"]),
        "modes[0]",
        "no policy switches; add `switches`",
    ),
    "switches nobody makes": (
        scenario(switches=[{"at": "10ms", "policy": "slo"}]),
        "switches",
        "add `switching`",
    ),
    "negative weight": (one(service(weight=-1)), "tenants[web].weight", "is -1; write a number"),
    "NaN weight": (one(service(weight=NAN)), "weight", "is nan, not a finite number"),
    "infinite weight": (one(service(weight=INFINITY)), "weight", "is inf, not a finite number"),
    "weight as text": (one(service(weight="2")), "weight", "not a number"),
    "negative duration": (scenario(duration="-5s"), "duration", "'-5s' is negative"),
    "no duration": (scenario(duration="0s"), "duration", "above 0"),
    "duration without unit": (scenario(duration=5), "duration", "with a unit"),
    "zero rate": (
        one(service(arrivals={"poisson": {"rate": 0}})),
        "poisson.rate",
        "write a number above 0",
    ),
    "NaN rate": (one(service(arrivals={"poisson": {"rate": NAN}})), "poisson.rate", "is nan"),
    "rate and load": (
        one(service(arrivals={"poisson": {"rate": 1, "load": 0.5}})),
        "poisson",
        "either",
    ),
    "endless requests": (
        one(service(arrivals={"poisson": {"rate": 1e12}})),
        "poisson",
        "lower rate",
    ),
    "no period": (one(service(arrivals={"periodic": "0ms"})), "periodic.period", "above 0"),
    "two kinds of arrivals": (
        one(service(arrivals={"closed": {}, "periodic": "5ms"})),
        "arrivals",
        "exactly one of",
    ),
    "no kind of arrivals": (one(service(arrivals={})), "arrivals", "exactly one of"),
    "unknown arrivals": (one(service(arrivals="poison")), "arrivals", "not a complete"),
    "latency below solo": (
        one(service(slo={"latency": "p99=100us"})),
        "tenants[web].slo.latency",
        "100 µs is impossible on h200",
    ),
    "throughput above solo": (
        one(service(slo={"throughput": 1e6})),
        "slo.throughput",
        "is impossible on h200",
    ),
    "availability above 1": (
        one(service(slo={"availability": 1.5})),
        "slo.availability.share",
        "at most 1",
    ),
    "percentile of 100": (
        one(service(slo={"latency": "p100=5ms"})),
        "latency.percentile",
        "below 100",
    ),
    "odd latency": (one(service(slo={"latency": "fast"})), "slo.latency.target", "not a duration"),
    "deadline before it can be": (
        one(loop(arrivals={"jobs": [{"at": "0s", "iterations": 50}]}, deadline="50ms")),
        "deadline",
        "is impossible on h200",
    ),
    "memory above limit": (
        one(service(memory={"limit": "1GiB", "use": "2GiB"})),
        "memory.use",
        "above the tenant's",
    ),
    "reserve above limit": (
        one(service(memory={"limit": "1GiB", "reserve": "2GiB"})),
        "memory.reserve",
        "raise `limit`",
    ),
    "memory above the GPU": (
        one(service(memory={"use": "900GiB"})),
        "memory.use",
        "does not fit in the 131 GiB of h200",
    ),
    "memory together": (
        scenario(tenants=[service(memory={"use": "90GiB"}), loop(memory={"reserve": "90GiB"})]),
        "memory",
        "use or reserve 180 GiB",
    ),
    "negative memory": (one(service(memory={"use": "-1GiB"})), "memory.use", "is negative"),
    "floors": (scenario(tenants=[service(floor=0.7), loop(floor=0.7)]), "tenants", "add up to 1.4"),
    "switch repeated": (
        scenario(
            modes=["switching"],
            switches=[{"at": "50ms", "policy": "slo"}, {"at": "50ms", "policy": "jct"}],
        ),
        "switches[1].at",
        "already a switch at 50 ms",
    ),
    "switch back in time": (
        scenario(
            modes=["switching"],
            switches=[{"at": "50ms", "policy": "slo"}, {"at": "20ms", "policy": "jct"}],
        ),
        "switches[1].at",
        "goes back in time, from 50 ms to 20 ms",
    ),
    "switch too late": (
        scenario(modes=["switching"], switches=[{"at": "5s", "policy": "slo"}]),
        "switches[0].at",
        "beyond the run's duration of 300 ms",
    ),
    "leaves before it joins": (
        one(service(joins="100ms", leaves="50ms")),
        "leaves",
        "leave after it joins",
    ),
    "joins too late": (one(service(joins="1s")), "joins", "beyond the run's duration"),
    "too many parts": (
        scenario(modes=["static-partition"], tenants=[loop(name=f"t{i}") for i in range(20)]),
        "modes",
        "do not fit on h200",
    ),
    "neither model nor kernels": (one({"name": "a"}), "tenants[a]", "`model` or `kernels`"),
    "no kernels": (one(loop(kernels=[])), "kernels", "is empty"),
    "no blocks": (kernel(blocks=0), "kernels[0].blocks", "at least 1"),
    "block too large": (kernel(threads=2048), "kernels[0].threads", "at most 1024"),
    "too many registers": (
        kernel(threads=1024, registers=200),
        "kernels[0].registers",
        "make the block smaller",
    ),
    "bandwidth above all": (kernel(bandwidth=1.2), "kernels[0].bandwidth", "at most 1"),
    "fractional blocks": (kernel(blocks=1.5), "kernels[0].blocks", "not a whole number"),
    "job outside the run": (
        one(loop(arrivals={"jobs": [{"at": "1s", "iterations": 5}]})),
        "jobs[0].at",
        "outside",
    ),
    "picture backwards": (
        scenario(picture={"from": "50ms", "to": "20ms"}),
        "picture.to",
        "end after it begins",
    ),
    "picture outside": (
        scenario(picture={"from": "0s", "to": "2s"}),
        "picture.to",
        "inside the run",
    ),
    "unknown class": (
        one(service(**{"class": "besteffort"})),
        "class",
        "did you mean 'best-effort'?",
    ),
    "list for a mapping": (one(service(memory=[1])), "memory", "a list, not a mapping"),
}


@pytest.mark.parametrize(("fields", "field", "sentence"), BAD.values(), ids=BAD.keys())
def test_bad_input_is_one_sentence_with_file_line_and_field(
    tmp_path: Path, fields: Fields, field: str, sentence: str
) -> None:
    with pytest.raises(InputError) as caught:
        read(tmp_path, fields)
    said = str(caught.value)
    assert said.startswith(f"{tmp_path / 'scenario.yaml'}, line ")
    assert field in caught.value.field
    assert sentence in said
    assert "\n" not in said
    assert caught.value.remedy


def test_the_line_is_that_of_the_field(tmp_path: Path) -> None:
    path = written(tmp_path, one(service(weight=-1)))
    line = next(
        number
        for number, text in enumerate(path.read_text().splitlines(), start=1)
        if "weight" in text
    )
    with pytest.raises(InputError, match=rf"line {line}: tenants\[web\].weight"):
        read_scenario(path)


def test_an_unknown_model_names_the_nearest(tmp_path: Path) -> None:
    tenant: Fields = {"name": "a", "model": "resnet50-trian"}
    with pytest.raises(InputError, match="did you mean 'resnet50-train'"):
        read(tmp_path, one(tenant))


@pytest.mark.parametrize(
    ("content", "line", "sentence"),
    [
        (None, "", "no such file"),
        ("", ", line 1", "no usable header"),
        ("time\n1\n", ", line 1", "start it with 'arrival_s,iterations'"),
        ("arrival_s\n", ", line 1", "holds no requests"),
        ("arrival_s\n0.1\nsoon\n", ", line 3", "'soon' is not an arrival time"),
        ("arrival_s\n-1\n", ", line 2", "seconds of 0 or more"),
        ("arrival_s\nnan\n", ", line 2", "'nan' is not an arrival time"),
        ("arrival_s,iterations\n0.1,0\n", ", line 2", "not a number of iterations"),
        ("arrival_s,iterations\n0.1\n", ", line 2", "has 1 columns; write 2"),
        ("arrival_s\n99\n", "", "no request within the run"),
    ],
)
def test_a_bad_trace_is_named_by_file_and_line(
    tmp_path: Path, content: str | None, line: str, sentence: str
) -> None:
    if content is not None:
        (tmp_path / "trace.csv").write_text(content)
    with pytest.raises(InputError) as caught:
        read(tmp_path, one(service(arrivals={"trace": "trace.csv"})))
    assert sentence in str(caught.value)
    if line:
        assert caught.value.file == f"{tmp_path / 'trace.csv'}{line}"


def test_a_trace_is_sorted_and_cut_at_the_end(tmp_path: Path) -> None:
    (tmp_path / "trace.csv").write_text("arrival_s,iterations\n0.2,2\n0.1,1\n5,9\n")
    tenant = service(arrivals={"trace": "trace.csv"}, joins="50ms", slo={})
    work = read(tmp_path, one(tenant)).setting.loads[0].work
    assert isinstance(work, Arrivals)
    assert work.at_ns.tolist() == [150_000_000, 250_000_000]
    assert work.iterations.tolist() == [1, 2]


def test_without_modes_everything_is_compared(tmp_path: Path) -> None:
    fields = scenario(switches=[{"at": "100ms", "policy": "slo"}])
    del fields["modes"]
    names = [mode.name for mode in read(tmp_path, fields).modes]
    assert names == [*BASELINES, "jct", "slo", "hybrid", "switching"]


def test_a_policy_may_be_compared_with_itself_under_other_parameters(tmp_path: Path) -> None:
    even = {"mode": "hybrid", "name": "even", "parameters": {"fairness": 1}}
    modes = read(tmp_path, scenario(modes=["hybrid", even])).modes
    assert [(mode.name, mode.policy, mode.parameters) for mode in modes] == [
        ("hybrid", "hybrid", ()),
        ("even", "hybrid", (("fairness", 1),)),
    ]


def test_the_command_line_wins_over_the_file(tmp_path: Path) -> None:
    described = read(tmp_path, scenario(), seed=9, duration_ns=50_000_000, modes=("jct", "mps"))
    assert described.seed == 9
    assert described.setting.duration_ns == 50_000_000
    assert [mode.name for mode in described.modes] == ["jct", "mps"]


def test_arrivals_of_a_tenant_depend_on_seed_and_name_alone(tmp_path: Path) -> None:
    def times(fields: Fields, seed: int, index: int = 0) -> list[int]:
        work = read(tmp_path, fields, seed=seed).setting.loads[index].work
        assert isinstance(work, Arrivals)
        return [int(at) for at in work.at_ns]

    turned = scenario(tenants=[loop(), service()])
    assert times(scenario(), 1) == times(scenario(), 1) == times(turned, 1, index=1)
    assert times(scenario(), 1) != times(scenario(), 2)


def test_load_is_a_share_of_what_the_tenant_could_serve_alone(tmp_path: Path) -> None:
    tenant = service(arrivals={"poisson": {"load": 0.5}})
    load = read(tmp_path, one(tenant), duration_ns=5_000_000_000).setting.loads[0]
    assert isinstance(load.work, Arrivals)
    alone_per_s = 1e9 / solo_request_ns(load.program, 1, Physics())
    assert len(load.work.at_ns) / 5.0 == pytest.approx(0.5 * alone_per_s, rel=0.1)


@pytest.mark.parametrize("graph", [True, False])
@pytest.mark.parametrize("host", ["2us", "80us"])
def test_solo_time_by_arithmetic_is_what_the_simulator_takes(
    tmp_path: Path, graph: bool, host: str
) -> None:
    kernels = [{"blocks": 264, "duration": "40us", "repeat": 10, "host": host}]
    arrivals = {"periodic": {"period": "20ms", "iterations": 4}}
    tenant = service(kernels=kernels, graph=graph, sync_every=2, arrivals=arrivals)
    setting = read(tmp_path, one(tenant)).setting
    arithmetic_ms = solo_request_ns(setting.loads[0].program, 4, Physics()) / 1e6
    assert measure_alone(setting)[0].p99_ms == pytest.approx(arithmetic_ms, rel=0.03)


def test_goals_follow_from_promises_and_jobs(tmp_path: Path) -> None:
    jobs = loop(name="jobs", arrivals={"jobs": [{"at": "0s", "iterations": 5}]})
    loads = read(tmp_path, scenario(tenants=[service(), loop(), jobs])).setting.loads
    assert [load.tenant.goal for load in loads] == [Goal.SLO, Goal.GOODPUT, Goal.FINISH]


def test_with_a_drain_loops_leave_at_the_end(tmp_path: Path) -> None:
    loads = read(tmp_path, scenario(drain="1s")).setting.loads
    assert [load.leaves_ns for load in loads] == [None, 300_000_000]
    assert isinstance(loads[1].work, ClosedLoop)


def test_a_model_on_another_gpu_is_scaled_and_the_reader_told(tmp_path: Path) -> None:
    tenant: Fields = {"name": "a", "model": "resnet50-train"}
    here, there = (read(tmp_path, one(tenant) | {"gpu": gpu}) for gpu in ("h200", "a100"))
    assert here.notes == ()
    assert "was recorded on h200" in there.notes[0]
    slower = there.setting.loads[0].program.gpu_ns / here.setting.loads[0].program.gpu_ns
    assert 1.1 < slower < 4.8 / 2.0


def test_a_changed_gpu_keeps_the_rest(tmp_path: Path) -> None:
    gpu = read(tmp_path, scenario(gpu={"name": "a100", "memory": "40GB"})).setting.accelerator
    assert (gpu.name, gpu.memory_bytes, gpu.sms) == ("a100", 40 * 10**9, 108)


def test_the_picture_is_around_the_first_switch(tmp_path: Path) -> None:
    fields = scenario(modes=["switching"], switches=[{"at": "100ms", "policy": "slo"}])
    assert read(tmp_path, fields).setting.picture_ns == (92_000_000, 112_000_000)
    assert read(tmp_path, scenario()).setting.picture_ns == (140_000_000, 160_000_000)


@pytest.mark.parametrize("path", sorted(EXAMPLES.glob("*.yaml")), ids=lambda path: path.stem)
def test_the_examples_can_be_read(path: Path) -> None:
    described = read_scenario(path)
    assert described.modes
    assert all(np.isfinite(load.program.gpu_ns) for load in described.setting.loads)
