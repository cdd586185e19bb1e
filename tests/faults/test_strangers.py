"""What an agent does not expect: forks, other users, other builds, crowds, noise."""

import json
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dure.client.schema import TenantSpec
from dure.devices import layout, library
from tests.faults.world import (
    ROOT,
    TRAIN,
    WEB,
    World,
    finish,
    last_json,
    processes,
    show,
    tenant,
    wait_for,
)

pytestmark = pytest.mark.faults

NOBODY = 65534
LONGEST_HOLD_MS = 2_500.0
"""DURE_LONGEST_HOLD_NS, and half a second for a busy machine."""
KEPT = TenantSpec(keep=True)


def test_children_with_and_without_exec_disturb_nobody(world: World) -> None:
    client = world.start_agent()
    beside = world.stepper(client.declare("train", TRAIN).environment)
    given = client.declare("family", KEPT).environment
    code, out, err = finish(world.tenant(given, "fork", "--children", 12, "--json"))
    assert (code, err) == (0, "")
    assert last_json(out)["errors"] == 0
    assert out.count("correct: true") == 4, "of twelve children, those that became a program"
    wait_for("free slots", lambda: processes(client, "family") == 0)
    assert beside.stop().count > 0


def test_a_program_that_becomes_another_keeps_one_slot(world: World) -> None:
    client = world.start_agent()
    beside = world.stepper(client.declare("train", TRAIN).environment)
    given = client.declare("changeling", KEPT).environment
    command = [str(library.path("dure-tenant")), "train", "--seconds", "1.5", "--json"]
    changed = world.program(given, "replaced", *command)

    def became() -> bool:
        return [each.program for each in tenant(client, "changeling").clients] == ["dure-tenant"]

    wait_for("the program after exec", became)
    assert client.status().gpus[0].clients == 2
    code, out, err = finish(changed)
    assert (code, err) == (0, "")
    assert json.loads(out)["correct"]
    wait_for("a free slot", lambda: processes(client, "changeling") == 0)
    assert beside.stop().count > 0


def test_forty_eight_tenants_at_once_all_compute_the_right_results(world: World) -> None:
    client = world.start_agent(policy="hybrid")
    given = [client.declare(f"t{number}", KEPT).environment for number in range(48)]
    load = ("train", "--seconds", 15, "--kernels", 5, "--work-us", 100, "--json")
    started = [world.tenant(each, *load) for each in given]
    wait_for("all of them registered", lambda: client.status().gpus[0].clients == 48)
    status = client.status().gpus[0]
    assert status.gated
    show(f"a tick takes {status.tick_ns / 1e6:.1f} ms")
    for process in started:
        code, out, err = finish(process)
        assert (code, err) == (0, "")
        assert json.loads(out)["correct"]
    wait_for("free slots", lambda: client.status().gpus[0].clients == 0)
    assert "Traceback" not in world.agent_log()


def test_who_finds_no_slot_says_so_once_and_runs_unmanaged(world: World) -> None:
    client = world.start_agent()
    crowd = client.declare("crowd", KEPT).environment
    idle = [world.tenant(crowd, "idle", "--seconds", 120) for _ in range(layout.CLIENTS)]
    wait_for("a full house", lambda: processes(client, "crowd") == layout.CLIENTS)
    code, out, err = finish(world.tenant(crowd, "train", "--count", 20, "--json"))
    assert code == 0, err
    assert json.loads(out)["correct"]
    assert err.splitlines() == [
        f"dure: not attached (all {layout.CLIENTS} slots for processes are taken; end some of "
        "them): passing everything through on GPU 0"
    ]
    idle[0].kill()
    wait_for("a free slot", lambda: processes(client, "crowd") == layout.CLIENTS - 1)
    late = world.tenant(crowd, "train", "--count", 20, "--json")
    assert finish(late)[2] == ""


def _others_reach(path: Path) -> bool:
    return all(each.stat().st_mode & 0o001 for each in path.parents)


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
@pytest.mark.skipif(not _others_reach(ROOT / "src"), reason="the checkout is root's alone")
def test_another_user_is_kept_from_roots_tenants_and_may_have_its_own(world: World) -> None:
    world.folder.chmod(0o755)
    world.emulator.chmod(0o777)
    client = world.start_agent()
    beside = world.stepper(client.declare("train", TRAIN).environment)
    roots = client.declare("roots", KEPT).environment
    program = [str(library.path("dure-tenant")), "train", "--count", "20", "--json"]
    code, out, err = finish(world.program(roots, "another_user", NOBODY, *program))
    assert code == 0, err
    assert json.loads(out)["correct"]
    assert err == (
        "dure: not attached (tenant 'roots' belongs to user 0): "
        "passing everything through on GPU 0\n"
    )
    code, out, err = finish(world.program({}, "another_users_tenant", NOBODY, "own", *program))
    assert (code, err) == (0, "")
    assert json.loads(out)["correct"]
    joined = [each for each in client.status().events if each.kind == "client"]
    assert any(each.tenant == "own" for each in joined)
    assert tenant(client, "own").uid == NOBODY
    assert beside.stop().count > 0


@pytest.fixture(scope="module")
def other_shims(built: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Shims of another version, and of the same version built with other sizes."""
    changes = {
        "version": (rf"(DURE_ABI_VERSION) {layout.VERSION}u", r"\1 99u"),
        "sizes": (r"(DURE_SQUADS) 128", r"\1 64"),
        "hello": (r"(    char program\[DURE_NAME_BYTES\];)", r"\1 uint64_t more[4];"),
    }
    made = {}
    for name, (pattern, replacement) in changes.items():
        folder = tmp_path_factory.mktemp(name)
        shutil.copytree(ROOT / "native", folder / "native")
        header = folder / "native" / "abi.h"
        text, count = re.subn(pattern, replacement, header.read_text(encoding="utf-8"))
        assert count == 1, f"abi.h has no {pattern}"
        header.write_text(text, encoding="utf-8")
        out = folder / "lib"
        command = [sys.executable, str(folder / "native" / "build.py"), "--out", str(out)]
        subprocess.run([*command, "--only", "shim"], check=True, capture_output=True)
        made[name] = out / "libdure.so"
    return made


@pytest.mark.parametrize(
    ("build", "reason"),
    [
        ("version", rf"libdure.so speaks version 99 .*, the agent {layout.VERSION} .*"),
        ("sizes", rf"libdure.so speaks version {layout.VERSION} .*; restart both"),
        ("hello", "that is no hello of this version; .*"),
    ],
)
def test_a_shim_of_another_build_says_so_and_passes_everything_through(
    world: World, other_shims: dict[str, Path], build: str, reason: str
) -> None:
    client = world.start_agent()
    beside = world.stepper(client.declare("train", TRAIN).environment)
    given = client.declare("old", WEB).environment
    old = world.tenant(
        given, "train", "--seconds", "2.5", "--json", LD_PRELOAD=str(other_shims[build])
    )
    code, out, err = finish(old)
    assert code == 0, err
    assert json.loads(out)["correct"]
    assert len(err.splitlines()) == 1, err
    assert re.fullmatch(
        rf"dure: not attached \({reason}\): passing everything through on GPU 0\n", err
    )
    refused = [each.text for each in client.status().events if each.kind == "refused"]
    assert refused
    assert re.search(reason, refused[0])
    assert processes(client, "old") == 0
    assert beside.stop().count > 0


@pytest.mark.parametrize("what", ["counters", "believed", "turn", "all"])
def test_noise_in_all_that_a_tenant_can_write_kills_and_stops_nobody(
    world: World, what: str
) -> None:
    client = world.start_agent()
    web = world.stepper(client.declare("web", WEB).environment, pause_ms=5)
    train = world.stepper(client.declare("train", TRAIN).environment)
    noisy = world.program(client.declare("noisy", KEPT).environment, "scribble", what, 4)
    assert noisy.stdout is not None
    assert noisy.stdout.readline() == "ready\n"
    began_ns = time.monotonic_ns()
    wait_for("its end", lambda: noisy.poll() is not None)
    ended_ns = time.monotonic_ns()
    assert finish(noisy)[0] == 0
    wait_for("its slot's return", lambda: processes(client, "noisy") == 0)
    for stepper in (web, train):
        steps = stepper.stop()
        longest_ms = steps.longest_ms(began_ns, ended_ns)
        show(f"{what}: {steps.count} steps, the longest {longest_ms:.0f} ms")
        assert steps.count > 20
        assert longest_ms < LONGEST_HOLD_MS
    assert world.agent is not None
    assert world.agent.poll() is None
    told = [each for each in client.status().events if each.kind == "scribble"]
    assert [each.tenant for each in told] == ([] if what == "turn" else ["noisy"])
    assert "Traceback" not in world.agent_log()
