"""NPUs the fleet knows by name, with the source of every value; estimates say what they rest on."""

from dure.domain.accelerator import AcceleratorKind
from dure.domain.fleet.catalogue_gpus import IDLE_ESTIMATE, IDLE_SHARE
from dure.domain.fleet.profiles import (
    DataType,
    DeviceProfile,
    Link,
    LinkKind,
    PowerCurve,
    Source,
    SourceKind,
)
from dure.domain.fleet.slices import CoreGroups, SliceTemplate, queue_unit, whole_device
from dure.domain.units import GIB

_GB = 1000**3
_QUEUE_MILLI = (500, 250, 100)
"""Ready-made queue units; any other weight is made with `queue_unit`."""


def _queue_units(memory_bytes: int, resource_name: str) -> list[SliceTemplate]:
    return [
        queue_unit(milli, memory_bytes * milli // 1000, resource_name=resource_name)
        for milli in _QUEUE_MILLI
    ]


def _published(title: str, url: str, note: str = "") -> Source:
    return Source(SourceKind.PUBLISHED, title, url, note)


_ATOM_RESOURCE = "rebellions.ai/npu"
_ATOM_MEMORY_BYTES = 16 * _GB
_ATOM_ARCHITECTURE = _published(
    "RBLN NPU Architecture", "https://docs.rbln.ai/software/profiler/architecture.html"
)
_ATOM_PLUGIN = _published(
    "RBLN Kubernetes Device Plugin",
    "https://docs.rbln.ai/latest/software/system_management/kubernetes/device_plugin.html",
    "the plugin gives out whole cards; no division of a card is documented for containers",
)

_ATOM = DeviceProfile(
    name="atom",
    vendor="Rebellions",
    product="ATOM (RBLN-CA02)",
    kind=AcceleratorKind.NPU,
    memory_bytes=_ATOM_MEMORY_BYTES,
    tops={DataType.FP16: 32.0, DataType.INT8: 128.0, DataType.INT4: 256.0},
    bandwidth_bytes_per_s=256.0 * _GB,
    link=Link(LinkKind.PCIE, 64.0 * _GB),
    power=PowerCurve(idle_w=6.2, peak_w=75.0),
    slices=(
        whole_device(_ATOM_MEMORY_BYTES, _ATOM_RESOURCE),
        *_queue_units(_ATOM_MEMORY_BYTES, _ATOM_RESOURCE),
    ),
    sources={
        "memory_bytes": _ATOM_ARCHITECTURE,
        "tops": Source(
            SourceKind.REPORTED,
            "ASCII.jp on Rebellions' ION, ATOM and REBEL-Quad",
            "https://ascii.jp/elem/000/004/379/4379440/",
        ),
        "bandwidth_bytes_per_s": Source(
            SourceKind.ESTIMATE,
            _ATOM_ARCHITECTURE.title,
            _ATOM_ARCHITECTURE.url,
            "the page states 16 GB of GDDR6 only: eight 16 Gbit parts of 16 bits each at "
            "16 Gbit/s per pin make 256 GB/s",
        ),
        "link": _published(
            _ATOM_ARCHITECTURE.title,
            _ATOM_ARCHITECTURE.url,
            "PCIe 5.0, which with 16 lanes carries 64 GB/s in one direction",
        ),
        "idle_w": _published(
            "RBLN Device Management, Kubernetes Support",
            "https://docs.rbln.ai/software/kubernetes.html",
            "the reading of an unused RBLN-CA02 in the example output of rbln-stat",
        ),
        "peak_w": Source(
            SourceKind.ESTIMATE,
            "RBLN Device Management",
            "https://docs.rbln.ai/software/system_management/device_management.html",
            "an RBLN-CA12 shows 43.9 W at 98 % in the example output; 75 W is what a PCIe slot "
            "gives a card without a cable",
        ),
        "slices": _ATOM_PLUGIN,
        "resource_names": _ATOM_PLUGIN,
    },
)

_RNGD_MEMORY_BYTES = 48 * _GB
_RNGD_GROUPS = CoreGroups(device_slots=8, memory_bytes=_RNGD_MEMORY_BYTES, most=8)
_RNGD_OVERVIEW = _published(
    "FuriosaAI RNGD, hardware specification",
    "https://developer.furiosa.ai/latest/en/overview/rngd.html",
)
_RNGD_PLUGIN = _published(
    "Installing Furiosa Device Plugin",
    "https://developer.furiosa.ai/v2024.2.0/en/cloud_native_toolkit/kubernetes/device_plugin.html",
    "cores fuse in aligned groups of 2, 4 or 8, each isolated with its own memory and bandwidth; "
    "the plugin divides all cards of a node alike",
)

_RNGD = DeviceProfile(
    name="rngd",
    vendor="FuriosaAI",
    product="RNGD",
    kind=AcceleratorKind.NPU,
    memory_bytes=_RNGD_MEMORY_BYTES,
    tops={
        DataType.BF16: 256.0,
        DataType.FP8: 512.0,
        DataType.INT8: 512.0,
        DataType.INT4: 1024.0,
    },
    bandwidth_bytes_per_s=1500.0 * _GB,
    link=Link(LinkKind.PCIE, 64.0 * _GB),
    power=PowerCurve(idle_w=round(180.0 * IDLE_SHARE, 1), peak_w=180.0),
    slices=(
        whole_device(_RNGD_MEMORY_BYTES, "furiosa.ai/rngd"),
        _RNGD_GROUPS.template("1core.6gb", 1, tuple(range(8)), "furiosa.ai/rngd-1core.6gb"),
        _RNGD_GROUPS.template("2core.12gb", 2, (0, 2, 4, 6), "furiosa.ai/rngd-2core.12gb"),
        _RNGD_GROUPS.template("4core.24gb", 4, (0, 4), "furiosa.ai/rngd-4core.24gb"),
        *_queue_units(_RNGD_MEMORY_BYTES, "furiosa.ai/rngd"),
    ),
    sources={
        "memory_bytes": _RNGD_OVERVIEW,
        "tops": _RNGD_OVERVIEW,
        "bandwidth_bytes_per_s": _RNGD_OVERVIEW,
        "link": _published(
            _RNGD_OVERVIEW.title,
            _RNGD_OVERVIEW.url,
            "PCIe Gen5 with 16 lanes, which carries 64 GB/s in one direction",
        ),
        "idle_w": IDLE_ESTIMATE,
        "peak_w": _published("FuriosaAI RNGD, product page", "https://furiosa.ai/rngd"),
        "slices": _RNGD_PLUGIN,
        "resource_names": _RNGD_PLUGIN,
    },
)

_ASCEND_MEMORY_BYTES = 64 * GIB
_ASCEND_RESOURCE = "huawei.com/Ascend910B2"
_ASCEND_GROUPS = CoreGroups(device_slots=8, memory_bytes=_ASCEND_MEMORY_BYTES, most=6)
_ASCEND_PLUGIN = Source(
    SourceKind.REPORTED,
    "HAMi, Ascend device plugin configuration (910B2)",
    "https://raw.githubusercontent.com/Project-HAMi/ascend-device-plugin/refs/heads/main/"
    "ascend-device-configmap.yaml",
)
_ASCEND_TEMPLATES = Source(
    SourceKind.REPORTED,
    _ASCEND_PLUGIN.title,
    _ASCEND_PLUGIN.url,
    "templates by AI cores (3, 6, 12 of 24), AI CPUs (1, 1, 3 of 6) and memory; slots are groups "
    "of 3 AI cores, and start slots keep either half of the device within 3 of the 6 AI CPUs. "
    "Memory bandwidth is not divided by the vendor: counted as the cores are",
)
_CLOUDMATRIX = Source(
    SourceKind.ESTIMATE,
    "Serving Large Language Models on Huawei CloudMatrix384",
    "https://arxiv.org/abs/2506.12708",
    "half of the published 910C, a package of two such dies, of which the vendor states speed "
    "(752 TFLOPS at 16 bits, twice that at INT8), memory bandwidth (3.2 TB/s) and links; of the "
    "910B2 alone it states none",
)

_ASCEND_910B = DeviceProfile(
    name="ascend-910b",
    vendor="Huawei",
    product="Ascend 910B2",
    kind=AcceleratorKind.NPU,
    memory_bytes=_ASCEND_MEMORY_BYTES,
    tops={DataType.FP16: 376.0, DataType.BF16: 376.0, DataType.INT8: 752.0},
    bandwidth_bytes_per_s=1600.0 * _GB,
    link=Link(LinkKind.HCCS, 196.0 * _GB),
    power=PowerCurve(idle_w=65.8, peak_w=350.0),
    slices=(
        whole_device(_ASCEND_MEMORY_BYTES, _ASCEND_RESOURCE),
        _ASCEND_GROUPS.template("vir03_1c_8g", 1, (0, 1, 2, 4, 5, 6), _ASCEND_RESOURCE),
        _ASCEND_GROUPS.template("vir06_1c_16g", 2, (0, 2, 4, 6), _ASCEND_RESOURCE),
        _ASCEND_GROUPS.template("vir12_3c_32g", 4, (0, 4), _ASCEND_RESOURCE),
        *_queue_units(_ASCEND_MEMORY_BYTES, _ASCEND_RESOURCE),
    ),
    sources={
        "memory_bytes": _ASCEND_PLUGIN,
        "tops": _CLOUDMATRIX,
        "bandwidth_bytes_per_s": _CLOUDMATRIX,
        "link": _CLOUDMATRIX,
        "idle_w": Source(
            SourceKind.REPORTED,
            "Ascend 910B in depth (Chinese), output of npu-smi",
            "https://borimooc.com/mNoticeDetail/1187.htm",
            "the reading of an unused 910B",
        ),
        "peak_w": Source(
            SourceKind.REPORTED,
            "Ascend 910B beside A100 and H100 (Chinese)",
            "https://jishuzhan.net/article/1872432607539499010",
            "reports between 310 W and 400 W are found; the vendor states none",
        ),
        "slices": _ASCEND_TEMPLATES,
        "resource_names": _ASCEND_PLUGIN,
    },
)

_NEURON_MEMORY_BYTES = 32 * GIB
_NEURON_CORE = CoreGroups(device_slots=2, memory_bytes=_NEURON_MEMORY_BYTES, most=2)
_NEURON_TOPS = {
    DataType.FP32: 47.5,
    DataType.TF32: 190.0,
    DataType.FP16: 190.0,
    DataType.BF16: 190.0,
    DataType.FP8: 190.0,
    DataType.INT8: 380.0,
}
_NEURON_SLICES = (
    whole_device(_NEURON_MEMORY_BYTES, "aws.amazon.com/neuron"),
    _NEURON_CORE.template("1core.16gib", 1, (0, 1), "aws.amazon.com/neuroncore"),
    *_queue_units(_NEURON_MEMORY_BYTES, "aws.amazon.com/neuron"),
)
_A100_TOPS_PER_W = 312.0 / 400.0
"""At 16 bits, from its data sheet: what the power of the chips below is estimated by."""
_NEURON_DOCS = "https://awsdocs-neuron.readthedocs-hosted.com/en/latest"
_NEURON_PLUGIN = _published(
    "AWS Neuron, Kubernetes environment setup",
    f"{_NEURON_DOCS}/containers/kubernetes-getting-started.html",
)


def _neuron(name: str, product: str, link_gib_per_s: int, better: float) -> DeviceProfile:
    """A chip with two NeuronCores-v2; `better` is its claimed gain in work per watt."""
    peak_w = round(_NEURON_TOPS[DataType.BF16] / (_A100_TOPS_PER_W * better), 1)
    page = name if name == "inferentia2" else "trainium"
    instance = "inf2" if name == "inferentia2" else "trn1"
    chip = _published(
        f"AWS Neuron, {product} Architecture",
        f"{_NEURON_DOCS}/general/arch/neuron-hardware/{page}.html",
    )
    return DeviceProfile(
        name=name,
        vendor="AWS",
        product=product,
        kind=AcceleratorKind.NPU,
        memory_bytes=_NEURON_MEMORY_BYTES,
        tops=_NEURON_TOPS,
        bandwidth_bytes_per_s=820.0 * GIB,
        link=Link(LinkKind.NEURONLINK, float(link_gib_per_s * GIB)),
        power=PowerCurve(round(peak_w * IDLE_SHARE, 1), peak_w),
        slices=_NEURON_SLICES,
        sources={
            "memory_bytes": chip,
            "tops": chip,
            "bandwidth_bytes_per_s": chip,
            "link": _published(
                f"AWS Neuron, EC2 {instance.capitalize()} Architecture",
                f"{_NEURON_DOCS}/general/arch/neuron-hardware/{instance}-arch.html",
                "NeuronLink-v2 chip to chip, per chip",
            ),
            "idle_w": IDLE_ESTIMATE,
            "peak_w": Source(
                SourceKind.ESTIMATE,
                f"Amazon EC2 {instance.capitalize()} instances",
                f"https://aws.amazon.com/ec2/instance-types/{instance}/",
                f"no power is published: the chip's 16-bit speed at the work per watt of an A100 "
                f"(312 TFLOPS in 400 W) times {better:g}, the gain the page claims over comparable "
                "instances",
            ),
            "slices": _published(
                chip.title, chip.url, "two cores per chip; memory and bandwidth counted as halves"
            ),
            "resource_names": _NEURON_PLUGIN,
        },
    )


NPUS: tuple[DeviceProfile, ...] = (
    _ATOM,
    _RNGD,
    _ASCEND_910B,
    _neuron("inferentia2", "Inferentia2", 192, 1.5),
    _neuron("trainium", "Trainium", 384, 1.25),
)
