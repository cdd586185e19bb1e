"""Every way to the driver leads through the shim, and nothing else changes."""

from pathlib import Path

import pytest

from tests.shim.kit import PYTHON, Kit

STEPS = ("launch:10", "ex:10", "coop:10", "sync", "capture", "graph:2", "event", "ctxsync")


@pytest.mark.parametrize("via", ["dlsym", "proc", "nested"])
def test_calls_found_at_run_time_are_seen(kit: Kit, via: str) -> None:
    done = kit.drive(f"via={via}", *STEPS)
    assert (done.code, done.lines) == (0, ["end"])
    assert done.count("cuLaunchKernel") == 3
    assert done.count("cuLaunchKernelEx") == 1
    assert done.count("cuLaunchCooperativeKernel") == 1
    assert done.count("cuGraphLaunch") == 2
    assert done.count("cuGraphInstantiateWithFlags") == 1
    assert done.count("cuStreamSynchronize") == 1
    assert done.count("cuCtxSynchronize") == 1


def test_the_kind_of_default_stream_that_was_asked_for_is_kept(kit: Kit) -> None:
    done = kit.drive("via=proc_ptsz", "launch:10", "sync")
    assert (done.code, done.lines) == (0, ["end"])
    assert done.count("cuLaunchKernel_ptsz") == 1
    assert done.count("cuLaunchKernel") == 0
    assert done.count("cuStreamSynchronize_ptsz") == 1


def test_an_older_version_of_the_resolver_is_itself_again(kit: Kit) -> None:
    program = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
for version, name in ((11030, "cuGetProcAddress"), (12000, "cuGetProcAddress_v2")):
    found = ctypes.c_void_p()
    assert cuda.cuGetProcAddress(b"cuGetProcAddress", ctypes.byref(found), version, 0) == 0
    assert found.value == ctypes.cast(getattr(cuda, name), ctypes.c_void_p).value, name
missing = ctypes.c_void_p(1)
assert cuda.cuGetProcAddress(b"cuNoSuchThing", ctypes.byref(missing), 13000, 0) == 500
assert not missing.value
"""
    done = kit.run([PYTHON, "-c", program])
    assert done.code == 0, done.errors


def test_a_program_linked_against_the_driver_is_seen(kit: Kit) -> None:
    done = kit.run(["linked"])
    assert (done.code, done.lines) == (0, ["end"])
    assert done.count("cuLaunchKernel") == 5


@pytest.mark.parametrize("first", ["other", "shim"])
def test_another_preload_keeps_its_place(kit: Kit, first: str) -> None:
    order = [str(kit.folder / "libother.so"), str(kit.folder / "libdure.so")]
    preload = ":".join(order if first == "other" else order[::-1])
    done = kit.run(["linked"], LD_PRELOAD=preload)
    assert done.code == 0
    assert done.lines[-2:] == ["other puts", "end"]
    assert done.count("cuStreamSynchronize") == 1
    if first == "other":  # the shim itself calls the driver, whoever else wraps it
        assert "other sync" in done.lines


def test_a_program_without_cuda_is_not_told_that_there_is_some(kit: Kit) -> None:
    program = (
        "import ctypes\n"
        "own = ctypes.CDLL(None)\n"
        "assert not hasattr(own, 'cuLaunchKernel')\n"
        "assert not hasattr(own, 'custom_name')\n"
        "assert own.getpid() > 0\n"
    )
    done = kit.run([PYTHON, "-c", program])
    assert done.code == 0, done.errors


def test_without_a_socket_nothing_is_said_or_done(kit: Kit) -> None:
    done = kit.drive("launch:10", "alloc:1", "info", "sync", DURE_TRACE="0")
    assert (done.code, done.errors) == (0, "")
    assert done.lines == ["alloc 1 0", "info 81919 81920", "end"]


def test_a_log_may_go_to_a_file_or_nowhere(kit: Kit, tmp_path: Path) -> None:
    log = tmp_path / "log"
    nobody = tmp_path / "nobody.sock"
    quiet = kit.drive("launch:1", socket=nobody, DURE_TRACE="0", DURE_LOG="off")
    filed = kit.drive("launch:1", socket=nobody, DURE_TRACE="0", DURE_LOG=str(log))
    assert (quiet.errors, filed.errors) == ("", "")
    assert log.read_text().startswith("dure: not attached")
