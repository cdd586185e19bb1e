"""Scenario files: what they mean, and what is refused before anything runs."""

from pathlib import Path

import pytest

from dure.domain.errors import InputError
from dure.sim.node.faults import FaultKind
from dure.sim.node.modes import MODES
from dure.sim.node.run import run
from dure.sim.node.scenario import Overrides, Scenario, read_scenario
from dure.sim.node.scenario_file import MOST_ALIKE
from dure.sim.node.steps import Free, Kernel, Loop, Serve, matmul
from tests.sim.node.worlds import GB, MS, Fields, S, written

EXAMPLES = sorted((Path(__file__).parents[3] / "examples" / "containers").glob("*.yaml"))


def task(**changes: object) -> Fields:
    fields: Fields = {"name": "task", "steps": [{"kernel": "1s"}]}
    return fields | changes


def scenario(*containers: Fields, **changes: object) -> Fields:
    return {"containers": list(containers) or [task()]} | changes


def steps(*listed: object) -> Fields:
    return scenario(task(steps=list(listed)))


def read(folder: Path, fields: Fields, **overrides: object) -> Scenario:
    return read_scenario(written(folder, fields), Overrides(**overrides))  # type: ignore[arg-type]


BAD: dict[str, tuple[Fields, str, str]] = {
    # case: what is written, the field blamed, a part of the sentence
    "unknown field": (scenario(modus=[]), "modus", "did you mean 'modes'?"),
    "unknown container field": (
        scenario(task(progam="x")),
        "containers[task].progam",
        "did you mean 'program'?",
    ),
    "unknown step": (steps({"kernels": "1s"}), "steps[0].kernels", "did you mean 'kernel'?"),
    "unknown risk": (
        scenario(risks=[{"kind": "lode", "at": "1s", "for": "1s"}]),
        "risks[0].kind",
        "did you mean 'load'?",
    ),
    "risk on no GPU": (
        scenario(risks=[{"kind": "load", "at": "1s", "for": "1s", "gpu": 1}]),
        "risks[0].gpu",
        "there is no GPU 1; use 0 to 0",
    ),
    "risks at once": (
        scenario(risks=[{"kind": "load", "at": at, "for": "2s"} for at in ("1s", "2s")]),
        "risks[1].at",
        "let one risk end before the next",
    ),
    "no containers": ({"containers": []}, "containers", "is empty; give at least 1"),
    "missing containers": ({"title": "x"}, "containers", "is missing; add"),
    "no program": (scenario(task(steps=None)), "containers[task]", "exactly one of them"),
    "program and steps": (
        scenario(task(program="p"), programs={"p": ["free"]}),
        "containers[task]",
        "exactly one of them",
    ),
    "unknown program": (
        scenario(task(steps=None, program="trian"), programs={"train": [{"kernel": "1s"}]}),
        "containers[task].program",
        "did you mean 'train'?",
    ),
    "two things in a step": (
        steps({"kernel": "1s", "host": "1s"}),
        "steps[0]",
        "one thing in each step",
    ),
    "empty step": (steps({}), "steps[0]", "is empty; write one thing"),
    "word that is no step": (steps("kernel"), "steps[0]", "write `kernel: …`"),
    "number as kernel": (steps({"kernel": 5}), "steps[0].kernel", "write it with a unit"),
    "negative kernel": (steps({"kernel": "-5s"}), "steps[0].kernel", "is negative"),
    "kernel of nothing": (steps({"kernel": "0s"}), "steps[0].kernel", "above 0"),
    "allocation of nothing": (steps({"allocate": 0}), "steps[0].allocate", "above 0"),
    "loop of nothing": (steps({"loop": {"times": 3, "steps": []}}), "loop.steps", "is empty"),
    "loop that never ends": (
        steps({"loop": {"times": 10**9, "steps": [{"kernel": "1s"}]}}),
        "loop.times",
        "of at most",
    ),
    "loops within loops": (
        steps({"loop": {"times": 2000, "steps": [{"loop": {"times": 2000, "steps": ["free"]}}]}}),
        "steps",
        "4,000,000 operations",
    ),
    "server without arrivals": (
        steps({"serve": {"requests": 5, "steps": [{"kernel": "1ms"}]}}),
        "steps[0].serve",
        "either a `rate` or a `period`",
    ),
    "server with both": (
        steps({"serve": {"requests": 5, "rate": 1, "period": "1s", "steps": [{"kernel": "1ms"}]}}),
        "steps[0].serve",
        "give exactly one",
    ),
    "close that is not one": (steps({"close": False}), "steps[0].close", "leave it out"),
    "GPU that is not there": (
        scenario(task(gpus=[1])),
        "containers[task].gpus[0]",
        "there is no GPU 1; use 0 to 0",
    ),
    "GPU twice": (scenario(task(gpus=[0, 0])), "gpus[1]", "listed twice"),
    "kernel without a GPU": (scenario(task(gpus=[])), "steps[0].kernel", "give it `gpus`"),
    "more memory than there is": (
        steps({"allocate": "200GB"}),
        "containers[task]",
        "needs 201 GB at once with its context, and a GPU has 141 GB",
    ),
    "memory that adds up": (
        scenario(task(steps=[{"loop": {"times": 2, "steps": [{"allocate": "80GB"}]}}])),
        "containers[task]",
        "free in between",
    ),
    "same name twice": (scenario(task(), task()), "containers[task].name", "is taken already"),
    "names that meet": (
        scenario(task(count=2), task(name="task-2")),
        "containers[task-2].name",
        "'task-2' is taken already",
    ),
    "odd name": (scenario(task(name="a b")), "name", "cannot be a name"),
    "too many": (scenario(task(count=MOST_ALIKE + 1)), "count", "of at most"),
    "release before start": (
        scenario(task(at="5s", release="2s")),
        "containers[task].release",
        "release them later",
    ),
    "label that is a number": (
        scenario(task(labels={"dure.weight": 2})),
        "labels.dure.weight",
        "put it in quotes",
    ),
    "labels outside": (
        scenario(task(outside=True, labels={"a": "b"})),
        "containers[task].outside",
        "leave them out",
    ),
    "unknown mode": (scenario(modes=["dure"]), "modes[0]", "there is no mode 'dure'"),
    "mode twice": (scenario(modes=["plain", "plain"]), "modes[1]", "listed twice"),
    "unknown fault": (
        scenario(faults=[{"kind": "dockerd", "at": "1s", "for": "1s"}]),
        "faults[0].kind",
        "did you mean 'docker'?",
    ),
    "two faults at once": (
        scenario(
            faults=[
                {"kind": "agent", "at": "1s", "for": "5s"},
                {"kind": "agent", "at": "2s", "for": "1s"},
            ]
        ),
        "faults[1].at",
        "is away already",
    ),
    "person and nobody": (
        scenario(people=[{"at": "1s", "container": "tusk", "does": "pause"}]),
        "people[0].container",
        "did you mean 'task'?",
    ),
    "unknown deed": (
        scenario(people=[{"at": "1s", "container": "task", "does": "stop"}]),
        "people[0].does",
        "use one of docker-pause",
    ),
    "no GPUs at all": (scenario(gpus=0), "gpus.count", "of at least 1"),
    "negative seed": (scenario(seed=-1), "seed", "of at least 0"),
    "bound of nothing": (scenario(dure={"max_pause": "0s"}), "dure.max_pause", "above 0"),
    "sharers of nothing": (scenario(dure={"sharers": 0}), "dure.sharers", "of at least 1"),
    "list instead of mapping": (scenario(host=[1]), "host", "not a mapping"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_refused_with_file_line_field_and_remedy(case: str, tmp_path: Path) -> None:
    fields, blamed, part = BAD[case]
    with pytest.raises(InputError) as refused:
        read(tmp_path, fields)
    error = refused.value
    assert "scenario.yaml, line " in error.file
    assert error.field.endswith(blamed)
    assert part in str(error)
    assert error.remedy


def test_an_unknown_mode_on_the_command_line_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="did you mean 'plain'"):
        read(tmp_path, scenario(), modes=("plian",))


def test_steps_become_what_a_process_does(tmp_path: Path) -> None:
    listed = [
        {"matmul": 8192},
        {"free": "10GB"},
        "free",
        {"loop": {"times": 3, "steps": [{"kernel": "20ms"}]}},
        {"serve": {"requests": 3, "period": "1s", "steps": [{"kernel": "5ms"}]}},
    ]
    (spec,) = read(tmp_path, steps(*listed)).setting.containers
    *product, some, all_of_it, loop, serve = spec.steps
    assert tuple(product) == matmul(8192)
    assert (some, all_of_it) == (Free(10 * GB), Free(None))
    assert loop == Loop(3, (Kernel(20 * MS),))
    assert serve == Serve((0, S, 2 * S), (Kernel(5 * MS),))


def test_containers_alike_are_numbered_and_start_one_after_another(tmp_path: Path) -> None:
    specs = read(tmp_path, scenario(task(count=3, at="1s", every="2s"))).setting.containers
    assert [(spec.name, spec.start_ns) for spec in specs] == [
        ("task-1", 1 * S),
        ("task-2", 3 * S),
        ("task-3", 5 * S),
    ]
    assert {spec.image for spec in specs} == {"task"}


def test_labels_are_judged_by_what_they_ask_and_odd_ones_are_left_to_the_machine(
    tmp_path: Path,
) -> None:
    asked = task(labels={"dure.max-wait": "3s", "dure.deadline": "1m"})
    odd = task(name="odd", labels={"dure.max-wait": "soon"})
    good, bad = read(tmp_path, scenario(asked, odd)).setting.containers
    assert (good.max_wait_ns, good.deadline_ns) == (3 * S, 60 * S)
    assert (bad.max_wait_ns, bad.labels) == (None, (("dure.max-wait", "soon"),))


def test_settings_of_host_and_dure_are_taken_over(tmp_path: Path) -> None:
    fields = scenario(
        gpus={"count": 2, "memory": "24GB", "sample_window": "1s"},
        host={"docker_pause": "60ms", "cuda_lock": False},
        dure={"max_pause": "30s", "sharers": 2},
        faults=[{"kind": "docker", "at": "1s", "for": "2s"}],
    )
    setting = read(tmp_path, fields).setting
    assert [gpu.memory_bytes for gpu in setting.gpus] == [24 * GB] * 2
    assert setting.gpus[0].sample_window_ns == S
    assert (setting.host.docker_pause_ns, setting.host.lockable) == (60 * MS, False)
    assert (setting.settings.max_pause_ns, setting.settings.sharers) == (30 * S, 2)
    assert [(fault.kind, fault.at_ns) for fault in setting.faults] == [(FaultKind.DOCKER, S)]


def test_arrivals_depend_on_the_seed_and_the_container_alone(tmp_path: Path) -> None:
    serve = {"serve": {"requests": 50, "rate": 10, "steps": [{"kernel": "1ms"}]}}
    web, api = task(name="web", steps=[serve]), task(name="api", steps=[serve])

    def arrivals(fields: Fields, **overrides: object) -> dict[str, object]:
        specs = read(tmp_path, fields, **overrides).setting.containers
        return {spec.name: spec.steps for spec in specs}

    both = arrivals(scenario(web, api))
    assert both["web"] != both["api"]
    assert arrivals(scenario(web))["web"] == both["web"]
    assert arrivals(scenario(web), seed=7)["web"] != both["web"]


def test_without_modes_all_run_and_the_command_line_wins(tmp_path: Path) -> None:
    assert [mode.name for mode in read(tmp_path, scenario()).modes] == list(MODES)
    chosen = read(tmp_path, scenario(modes=["paper"]), modes=("plain",)).modes
    assert [mode.name for mode in chosen] == ["plain"]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_every_example_can_be_read_and_ends_under_plain_sharing(path: Path) -> None:
    described = read_scenario(path)
    result = run(described.setting, MODES["plain"])
    assert result.unfinished == 0


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 8
