"""GPUs the fleet knows by name, with the source of every value.

Speeds are dense ones: where a data sheet states them with structured sparsity, which doubles them,
half is taken. Links are in one direction: half of the sum of both directions data sheets state.
"""

from dataclasses import dataclass, replace

from dure.domain.accelerator import AcceleratorKind
from dure.domain.fleet.profiles import (
    DataType,
    DeviceProfile,
    Link,
    LinkKind,
    PowerCurve,
    Source,
    SourceKind,
)
from dure.domain.fleet.slices import (
    SliceTemplate,
    mig_templates,
    mps_share,
    queue_unit,
    time_slice,
    whole_device,
)

_GB = 1000**3
_NVIDIA_RESOURCE = "nvidia.com/gpu"
_MPS_PERCENTS = (50, 20, 10, 5)
"""Ready-made MPS shares; any other whole percentage is made with `mps_share`."""
_REPLICAS = (2, 4, 8)
"""Ready-made time slices; any other number is made with `time_slice`."""
_QUEUE_MILLI = (500, 250, 100)
"""Ready-made queue units; any other weight is made with `queue_unit`."""

_H200_IDLE_W = 73.65
_H200_PEAK_W = 700.0
IDLE_SHARE = _H200_IDLE_W / _H200_PEAK_W
"""Idle power as a share of peak where no figure is known: what was reported of an H200."""

_H200_IDLE_REPORT = Source(
    SourceKind.REPORTED,
    "ConserveMode, H200 GPU Idle State Validation",
    "https://conservemode.com/case-studies.html",
    f"{_H200_IDLE_W} W, mean of readings by nvidia-smi",
)
IDLE_ESTIMATE = Source(
    SourceKind.ESTIMATE,
    _H200_IDLE_REPORT.title,
    _H200_IDLE_REPORT.url,
    f"the vendor states no idle power: {IDLE_SHARE:.1%} of peak, the share read on an H200",
)
_MIG_GUIDE = Source(
    SourceKind.PUBLISHED,
    "NVIDIA Multi-Instance GPU User Guide, Supported MIG Profiles",
    "https://docs.nvidia.com/datacenter/tesla/mig-user-guide/supported-mig-profiles.html",
    "memory and bandwidth by eighths, compute by sevenths; MPS and time slices as on any GPU",
)
_SHARING_GUIDE = Source(
    SourceKind.PUBLISHED,
    "NVIDIA GPU Operator, Time-Slicing GPUs in Kubernetes; CUDA Multi-Process Service",
    "https://docs.nvidia.com/datacenter/cloud-native/gpu-operator/latest/gpu-sharing.html",
    "limits of MPS: https://docs.nvidia.com/deploy/mps/index.html",
)
_PASCAL_SHARING = replace(
    _SHARING_GUIDE,
    note="MPS gives clients shares and memory limits from Volta on, so here there are none",
)
_RESOURCES = Source(
    SourceKind.PUBLISHED,
    "NVIDIA device plugin for Kubernetes",
    "https://github.com/NVIDIA/k8s-device-plugin",
)


@dataclass(frozen=True, slots=True)
class _Sheet:
    """One GPU's data sheet."""

    name: str
    product: str
    memory_gb: int
    memory_gb_per_s: float
    link: Link
    peak_w: float
    source: Source


def _nvlink(both_directions_gb_per_s: int) -> Link:
    return Link(LinkKind.NVLINK, both_directions_gb_per_s * _GB / 2)


def _pcie(both_directions_gb_per_s: int) -> Link:
    return Link(LinkKind.PCIE, both_directions_gb_per_s * _GB / 2)


def _published(title: str, url: str, note: str = "") -> Source:
    return Source(SourceKind.PUBLISHED, title, url, note)


def _shared(memory_bytes: int, *, mps: bool) -> list[SliceTemplate]:
    """The ways every NVIDIA GPU is shared in software."""
    clients = [
        mps_share(percent * 10, memory_bytes * percent // 100, name=f"mps.{percent}pc")
        for percent in _MPS_PERCENTS
    ]
    return [
        *(clients if mps else ()),
        *(time_slice(replicas, memory_bytes) for replicas in _REPLICAS),
        *(
            queue_unit(milli, memory_bytes * milli // 1000, resource_name=_NVIDIA_RESOURCE)
            for milli in _QUEUE_MILLI
        ),
    ]


def _gpu(
    sheet: _Sheet,
    tops: dict[DataType, float],
    *,
    mig: tuple[str, str, str, str] | None = None,
    mps: bool = True,
) -> DeviceProfile:
    """A profile from a data sheet; `mig` names memory sizes where the GPU has MIG."""
    memory_bytes = sheet.memory_gb * _GB
    slices = [
        whole_device(memory_bytes, _NVIDIA_RESOURCE),
        *(mig_templates(memory_bytes, mig) if mig else ()),
        *_shared(memory_bytes, mps=mps),
    ]
    sharing = _MIG_GUIDE if mig else _SHARING_GUIDE
    return DeviceProfile(
        name=sheet.name,
        vendor="NVIDIA",
        product=sheet.product,
        kind=AcceleratorKind.GPU,
        memory_bytes=memory_bytes,
        tops=tops,
        bandwidth_bytes_per_s=sheet.memory_gb_per_s * _GB,
        link=sheet.link,
        power=PowerCurve(round(sheet.peak_w * IDLE_SHARE, 2), sheet.peak_w),
        slices=tuple(slices),
        sources={
            "memory_bytes": sheet.source,
            "tops": sheet.source,
            "bandwidth_bytes_per_s": sheet.source,
            "link": sheet.source,
            "idle_w": _H200_IDLE_REPORT if sheet.name == "h200" else IDLE_ESTIMATE,
            "peak_w": sheet.source,
            "slices": sharing if mps else _PASCAL_SHARING,
            "resource_names": _RESOURCES,
        },
    )


_HALVED = "speeds are half of those stated with sparsity"
_H100_SHEET = _published(
    "NVIDIA H100 GPU, product specifications (SXM)",
    "https://www.nvidia.com/en-us/data-center/h100/",
    _HALVED,
)
_H200_SHEET = _published(
    "NVIDIA H200 GPU, product specifications (SXM)",
    "https://www.nvidia.com/en-us/data-center/h200/",
    _HALVED,
)
_A100_SHEET = _published(
    "NVIDIA A100 Tensor Core GPU data sheet (SXM4)",
    "https://www.nvidia.com/content/dam/en-zz/Solutions/Data-Center/a100/pdf/"
    "nvidia-a100-datasheet-us-nvidia-1758950-r4-web.pdf",
)
_A100_40_SHEET = _published(
    "NVIDIA A100 Tensor Core GPU Architecture white paper (SXM4, 40 GB)",
    "https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/"
    "nvidia-ampere-architecture-whitepaper.pdf",
)
_L40S_SHEET = _published(
    "NVIDIA L40S GPU, product specifications", "https://www.nvidia.com/en-us/data-center/l40s/"
)
_L4_SHEET = _published(
    "NVIDIA L4 Tensor Core GPU, product specifications",
    "https://www.nvidia.com/en-us/data-center/l4/",
    _HALVED,
)
_T4_SHEET = _published(
    "NVIDIA T4 Tensor Core GPU, product specifications",
    "https://www.nvidia.com/en-us/data-center/tesla-t4/",
)
_V100_SHEET = _published(
    "NVIDIA V100 Tensor Core GPU, product specifications (SXM2)",
    "https://www.nvidia.com/en-us/data-center/v100/",
)
_P100_SHEET = _published(
    "NVIDIA Tesla P100, product specifications (PCIe, 16 GB)",
    "https://www.nvidia.com/en-us/data-center/tesla-p100/",
)

_HOPPER_TOPS = {
    DataType.FP32: 67.0,
    DataType.TF32: 494.5,
    DataType.FP16: 989.5,
    DataType.BF16: 989.5,
    DataType.FP8: 1979.0,
    DataType.INT8: 1979.0,
}
_A100_TOPS = {
    DataType.FP32: 19.5,
    DataType.TF32: 156.0,
    DataType.FP16: 312.0,
    DataType.BF16: 312.0,
    DataType.INT8: 624.0,
    DataType.INT4: 1248.0,
}
_L40S_TOPS = {
    DataType.FP32: 91.6,
    DataType.TF32: 183.0,
    DataType.FP16: 362.0,
    DataType.BF16: 362.0,
    DataType.FP8: 733.0,
    DataType.INT8: 733.0,
    DataType.INT4: 733.0,
}
_L4_TOPS = {
    DataType.FP32: 30.3,
    DataType.TF32: 60.0,
    DataType.FP16: 121.0,
    DataType.BF16: 121.0,
    DataType.FP8: 242.5,
    DataType.INT8: 242.5,
}
_T4_TOPS = {
    DataType.FP32: 8.1,
    DataType.FP16: 65.0,
    DataType.INT8: 130.0,
    DataType.INT4: 260.0,
}
_V100_TOPS = {DataType.FP32: 15.7, DataType.FP16: 125.0}
_P100_TOPS = {DataType.FP32: 9.3, DataType.FP16: 18.7}

_MIG_80GB = ("10gb", "20gb", "40gb", "80gb")

GPUS: tuple[DeviceProfile, ...] = (
    _gpu(
        _Sheet("h200", "H200 SXM 141GB", 141, 4800, _nvlink(900), _H200_PEAK_W, _H200_SHEET),
        _HOPPER_TOPS,
        mig=("18gb", "35gb", "71gb", "141gb"),
    ),
    _gpu(
        _Sheet("h100", "H100 SXM 80GB", 80, 3350, _nvlink(900), 700, _H100_SHEET),
        _HOPPER_TOPS,
        mig=_MIG_80GB,
    ),
    _gpu(
        _Sheet("a100", "A100 SXM 80GB", 80, 2039, _nvlink(600), 400, _A100_SHEET),
        _A100_TOPS,
        mig=_MIG_80GB,
    ),
    _gpu(
        _Sheet("a100-40gb", "A100 SXM 40GB", 40, 1555, _nvlink(600), 400, _A100_40_SHEET),
        _A100_TOPS,
        mig=("5gb", "10gb", "20gb", "40gb"),
    ),
    _gpu(_Sheet("l40s", "L40S 48GB", 48, 864, _pcie(64), 350, _L40S_SHEET), _L40S_TOPS),
    _gpu(_Sheet("l4", "L4 24GB", 24, 300, _pcie(64), 72, _L4_SHEET), _L4_TOPS),
    _gpu(_Sheet("t4", "T4 16GB", 16, 320, _pcie(32), 70, _T4_SHEET), _T4_TOPS),
    _gpu(_Sheet("v100", "V100 SXM2 32GB", 32, 900, _nvlink(300), 300, _V100_SHEET), _V100_TOPS),
    _gpu(
        _Sheet("v100-16gb", "V100 SXM2 16GB", 16, 900, _nvlink(300), 300, _V100_SHEET),
        _V100_TOPS,
    ),
    _gpu(
        _Sheet("p100", "P100 PCIe 16GB", 16, 732, _pcie(32), 250, _P100_SHEET),
        _P100_TOPS,
        mps=False,
    ),
)
