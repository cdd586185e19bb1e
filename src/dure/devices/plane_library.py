"""The C library of the data plane, as Python calls it: what needs barriers is done there."""

import ctypes
from ctypes import POINTER, c_bool, c_char_p, c_int, c_uint16, c_uint32, c_uint64, c_void_p
from functools import cache

from dure.devices import layout, library


class Plane(ctypes.Structure):
    """`struct dure_plane`: a GPU as one client sees it."""

    _fields_ = (
        ("control", POINTER(layout.Control)),
        ("rotation", POINTER(layout.Rotation)),
        ("slot", POINTER(layout.Slot)),
        ("clients", POINTER(layout.Activity) * layout.CLIENTS),
        ("client", c_uint32),
        ("tenant", c_uint32),
        ("hold_began_ns", c_uint64),
        ("burst_gpu_ns", c_uint64),
        ("burst_predicted_ns", c_uint64),
        ("lost_ns", c_uint64),
        ("alone_ppm", c_uint64),
        ("copy_ready_ns", c_uint64),
        ("pid", c_uint32),
        ("socket", c_uint32),
        ("waited_for", c_uint64),
        ("moved_ns", c_uint64),
        ("masters_epoch", c_uint64),
        ("masters", c_uint64),
        ("keeps_rotation", c_bool),
    )


class Launch(ctypes.Structure):
    """`struct dure_launch`: what is about to be launched."""

    _fields_ = (
        ("kernel_class", c_uint32),
        ("predicted_ns", c_uint64),
        ("graph", c_bool),
        ("waits_on_device", c_bool),
    )


class Waits(ctypes.Structure):
    """`struct dure_waits`: for whom a stream waits on the device."""

    _fields_ = (
        ("count", c_uint32),
        ("present", c_uint32),
        ("clients", c_uint32 * 4),
        ("step_ns", c_uint64),
    )


class GroupSet(ctypes.Structure):
    """`struct dure_set`: where a launch may run."""

    _fields_ = (("group_first", c_uint16), ("group_count", c_uint16))


_P = POINTER(Plane)
_SIGNATURES: dict[str, tuple[object, tuple[object, ...]]] = {
    "dure_now_ns": (c_uint64, ()),
    "dure_gated": (c_bool, (_P, c_uint64)),
    "dure_ask": (c_uint32, (_P, POINTER(Launch), c_uint64, POINTER(c_uint32))),
    "dure_hold": (c_uint64, (_P, POINTER(Launch), c_void_p, c_void_p)),
    "dure_set_now": (GroupSet, (_P, c_uint64)),
    "dure_company": (c_uint64, (_P, c_uint64)),
    "dure_launched": (None, (_P, POINTER(Launch), c_uint64)),
    "dure_finished": (None, (_P, c_uint64, c_uint64, c_uint64)),
    "dure_drained": (None, (_P, c_uint64)),
    "dure_launched_before": (None, (_P, c_uint64, c_uint64, c_uint64)),
    "dure_waits_now": (c_bool, (_P, POINTER(Launch), c_uint64, POINTER(Waits))),
    "dure_waits_placed": (None, (_P, POINTER(Waits), c_uint64)),
    "dure_waits_check": (c_uint64, (_P, c_uint64)),
    "dure_waited_on_device": (None, (_P, c_uint64, c_uint64)),
    "dure_sampled": (None, (_P, POINTER(layout.Sample))),
    "dure_reported": (None, (_P, c_uint64)),
    "dure_memory_may_take": (c_bool, (_P, c_uint64, c_uint64)),
    "dure_memory_took": (None, (_P, c_uint64)),
    "dure_memory_gave": (None, (_P, c_uint64)),
    "dure_memory_info": (None, (_P, POINTER(c_uint64), POINTER(c_uint64))),
    "dure_copy_wait_ns": (c_uint64, (_P, c_uint64, c_uint64)),
    "dure_attach": (c_int, (_P, c_char_p, POINTER(layout.Hello), c_char_p)),
    "dure_detach": (None, (_P,)),
    "dure_publish": (
        None,
        (POINTER(layout.Control), POINTER(layout.Rotation), POINTER(layout.PlanBuffer)),
    ),
    "dure_turn_over": (
        None,
        (POINTER(layout.Control), POINTER(layout.Rotation), c_void_p, c_uint64),
    ),
    "dure_wake": (None, (POINTER(layout.Rotation),)),
    "dure_store": (None, (c_void_p, c_uint64)),
    "dure_load": (c_uint64, (c_void_p,)),
    "dure_take_samples": (
        c_uint32,
        (POINTER(layout.Slot), POINTER(c_uint64), POINTER(layout.Sample), c_uint32),
    ),
    "dure_bucket": (c_uint32, (c_uint64,)),
}


def load(path: str) -> ctypes.CDLL:
    """The library at a path, its functions declared."""
    loaded = ctypes.CDLL(path)
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(loaded, name)
        function.restype = result
        function.argtypes = arguments
    return loaded


@cache
def plane_library() -> ctypes.CDLL:
    """The library that came with this installation."""
    return load(str(library.path("libdure_plane.so")))
