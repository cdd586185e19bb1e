"""What single calls answer: by name, of devices, to wrong arguments, about memory."""

import ctypes
from ctypes import byref, c_int, c_size_t, c_uint, c_uint64, c_void_p

from tests.emulator.cuda import Cuda
from tests.emulator.programs.common import Printed


def memory(*_: str) -> Printed:
    """What allocations do to what is free."""
    cuda = Cuda()
    stream = cuda.stream()
    free = [cuda.free_bytes()]
    x = cuda.allocate(64 << 20)
    free.append(cuda.free_bytes())
    cuda.call("cuMemFree_v2", c_uint64(x))
    free.append(cuda.free_bytes())
    made = c_uint64()
    cuda.call("cuMemAllocAsync", byref(made), c_size_t(32 << 20), stream)
    free.append(cuda.free_bytes())
    cuda.spin(stream, 60)
    cuda.call("cuMemFreeAsync", made, stream)
    free.append(cuda.free_bytes())
    cuda.synchronize(stream)
    free.append(cuda.free_bytes())
    prop = (ctypes.c_ubyte * 32)()
    prop[0] = prop[8] = 1
    handle = c_uint64()
    cuda.call("cuCtxSetCurrent", None)
    cuda.call("cuMemCreate", byref(handle), c_size_t(16 << 20), byref(prop), c_uint64(0))
    cuda.call("cuCtxSetCurrent", cuda.context)
    free.append(cuda.free_bytes())
    cuda.call("cuMemRelease", handle)
    free.append(cuda.free_bytes())
    code = cuda.code("cuMemAlloc_v2", byref(made), c_size_t(1 << 45))
    managed = c_uint64()
    cuda.call("cuMemAllocManaged", byref(managed), c_size_t(4096), 1)
    cuda.fill(stream, managed.value, 77)
    cuda.synchronize(stream)
    word = ctypes.cast(c_void_p(managed.value), ctypes.POINTER(c_uint)).contents.value
    return {"free": free, "too_much": code, "managed": word}


def rectangles(*_: str) -> Printed:
    """A copy of a rectangle out of a larger one."""
    cuda = Cuda()
    device, rows, pitch = cuda.allocate(4096), 4, 64
    source = (ctypes.c_ubyte * (rows * pitch))(*[i % 251 for i in range(rows * pitch)])
    cuda.call("cuMemcpyHtoD_v2", c_uint64(device), source, c_size_t(rows * pitch))
    out = (ctypes.c_ubyte * (2 * 8))()
    fields = (16, 1, 2, 0, device, 0, pitch, 0, 0, 1, ctypes.addressof(out), 0, 0, 8, 8, 2)
    copy = (c_uint64 * 16)(*fields)
    cuda.call("cuMemcpy2D_v2", byref(copy))
    return {"bytes": list(out)}


def resolving(*_: str) -> Printed:
    """Calls by name, version and kind of default stream."""
    library = ctypes.CDLL("libcuda.so.1")
    address = {
        name: ctypes.cast(getattr(library, name), c_void_p).value
        for name in (
            *("cuLaunchKernel", "cuLaunchKernel_ptsz", "cuMemAlloc_v2", "cuGetProcAddress"),
            *("cuGetProcAddress_v2", "cuGraphExecUpdate", "cuGraphExecUpdate_v2"),
        )
    }
    names = {value: name for name, value in address.items()}

    def ask(name: str, version: int, flags: int) -> tuple[int, int, str | None]:
        found, status = c_void_p(), c_int(-1)
        asked = (name.encode(), byref(found), version, c_uint64(flags), byref(status))
        code = library.cuGetProcAddress_v2(*asked)
        return code, status.value, names.get(found.value)

    return {
        "plain": ask("cuLaunchKernel", 13000, 0),
        "per_thread": ask("cuLaunchKernel", 13000, 2),
        "versioned": ask("cuMemAlloc", 12000, 0),
        "itself": ask("cuGetProcAddress", 12000, 0),
        "itself_before": ask("cuGetProcAddress", 11030, 0),
        "old": ask("cuGraphExecUpdate", 11000, 0),
        "new": ask("cuGraphExecUpdate", 13000, 0),
        "too_old": ask("cuGraphKernelNodeGetParams_v9", 13000, 0),
        "version_too_old": ask("cuGetProcAddress", 11000, 0),
    }


def devices(*_: str) -> Printed:
    """What the devices say of themselves, and what work on the second does to the first."""
    cuda = Cuda()
    count = c_int()
    cuda.call("cuDeviceGetCount", byref(count))
    uuids = []
    for index in range(count.value):
        uuid = (ctypes.c_ubyte * 16)()
        cuda.call("cuDeviceGetUuid_v2", byref(uuid), index)
        uuids.append(bytes(uuid).hex())
    sms, major = c_int(), c_int()
    cuda.call("cuDeviceGetAttribute", byref(sms), 16, 0)
    cuda.call("cuDeviceGetAttribute", byref(major), 75, 0)
    return {"count": count.value, "uuids": uuids, "sms": sms.value, "major": major.value}


def invalid(*_: str) -> Printed:
    """What wrong calls return."""
    library = ctypes.CDLL("libcuda.so.1")
    before = library.cuCtxSynchronize()
    cuda = Cuda()
    stream, event, made = cuda.stream(), cuda.event(), c_void_p()
    cuda.call("cuStreamDestroy_v2", stream)
    x = cuda.allocate(4096)
    cuda.call("cuMemFree_v2", c_uint64(x))
    node = cuda.code("cuModuleGetFunction", byref(made), cuda.module, b"nobody")
    offset, size = c_size_t(), c_size_t()
    info = ("cuFuncGetParamInfo", cuda.function("stranger"), c_size_t(2), byref(offset))
    cuda.call(*info, byref(size))
    return {
        "before_init": before,
        "freed_twice": cuda.code("cuMemFree_v2", c_uint64(x)),
        "no_such_function": node,
        "no_threads": cuda.code(
            "cuLaunchKernel", cuda.function("dure_spin"), *(1, 1, 1, 0, 1, 1, 0, None, None, None)
        ),
        "never_recorded": cuda.code("cuEventQuery", event),
        "not_text": cuda.code("cuModuleLoadData", byref(made), b"\x7fELF" + bytes(64)),
        "third_parameter": [offset.value, size.value],
    }
