"""Streams, events, the legacy default stream and host functions keep their order."""

from tests.emulator.driving import Emulator


def chase(word: int, addend: int) -> int:
    return (word * 1664525 + addend) & 0xFFFFFFFF


def test_streams_are_ordered_by_events_and_by_the_legacy_stream(emulator: Emulator) -> None:
    seen = emulator.program("order")
    assert seen["legacy"] == chase(chase(1, 7), 9)
    assert seen["unordered"] == 1, "a non-blocking stream does not wait for the legacy stream"
    assert seen["waited"] == chase(5, 3)
    assert seen["states"] == [600, 600, 0, 0]


def test_a_host_function_runs_in_order_on_a_thread_of_the_driver(emulator: Emulator) -> None:
    seen = emulator.program("host_functions")
    assert seen["seen"] == [True]
    assert seen["seconds"] >= 0.05
    assert seen["word"] == chase(3, 1)


def test_a_stream_waits_for_a_word_that_others_write(emulator: Emulator) -> None:
    seen = emulator.program("words")
    invalid_value, already_registered, not_ready = 1, 712, 600
    assert seen["codes"] == [invalid_value, already_registered, not_ready, invalid_value]
    assert seen["once"] == chase(1, 7)
    assert seen["twice"] == chase(chase(1, 7), 9)
    assert seen["written"] == 6


def test_a_capture_forbids_what_the_driver_forbids(emulator: Emulator) -> None:
    seen = emulator.program("capturing")
    unsupported, invalidated, captured_event, implicit, unjoined = 900, 901, 907, 906, 904
    assert seen["codes"] == {
        "synchronize": [unsupported, invalidated, 0],
        "query": [unsupported, invalidated, 0],
        "event": [captured_event, 0, 0],
        "context": [unsupported, invalidated, 0],
        "allocate": [unsupported, invalidated, 0],
        "relaxed": [0, 0, 0],
        "legacy": [implicit, invalidated, 0],
        "unjoined": [unjoined],
        "not capturing": [401],
    }
    assert seen["before"] == 1, "captured work does not run"
    assert seen["after"] == chase(chase(1, 5), 5), "each launch runs the graph once"


def test_graphs_run_in_order_inside_one_another_and_after_an_update(emulator: Emulator) -> None:
    seen = emulator.program("graphs")
    inner = chase(chase(1, 2), 3)
    outer = chase(chase(chase(chase(1, 1), 2), 3), 4)
    assert seen["words"] == [inner, outer, chase(chase(1, 5), 6)]
    assert (seen["other_shape"], seen["why"]) == (910, 2), "another shape needs a new graph"


def test_a_launch_blocks_when_the_program_is_far_ahead(emulator: Emulator) -> None:
    seen = emulator.program("far_ahead")
    assert seen["blocked_s"] >= 0.5
    assert seen["free_s"] < seen["blocked_s"]
