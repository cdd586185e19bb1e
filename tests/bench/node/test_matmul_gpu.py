"""The product program on a real driver."""

import json
import subprocess
from pathlib import Path

import pytest

from dure.bench.node.barrier import Barrier
from tests.emulator.driving import build

pytestmark = pytest.mark.gpu

LIMIT_S = 120.0


def test_a_product_is_right_on_a_real_gpu() -> None:
    program = build() / "dure-tenant"
    for size in (64, 1000, 4096):
        done = subprocess.run(
            [str(program), "matmul", "--size", str(size), "--json"],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert json.loads(done.stdout)["correct"] is True


def test_each_round_opens_the_driver_anew_on_a_real_gpu(tmp_path: Path) -> None:
    command = [str(build() / "dure-tenant"), "matmul", "--size", "1024", "--json"]
    member = subprocess.Popen([*command, "--barrier", str(tmp_path), "--index", "0"])
    barrier = Barrier(tmp_path)
    try:
        for _ in range(2):
            barrier.await_ready([0], LIMIT_S)
            (result,) = barrier.results([barrier.release(range(1))], LIMIT_S)
            assert (result["exit"], result["said"]["correct"]) == (0, True)
            assert result["said"]["setup_s"] > 0.01
    finally:
        barrier.quit()
        member.wait(LIMIT_S)
