"""What a program takes with the device to itself, by arithmetic, and how that scales to a GPU."""

from dataclasses import replace

from dure.domain.accelerator import AcceleratorProfile
from dure.sim.kernel.load import KernelSpec, Program
from dure.sim.kernel.physics import Physics


def solo_request_ns(program: Program, iterations: float, physics: Physics) -> float:
    """Time from the first launch of a request to the return of its last wait."""
    if program.graph:
        first_host_ns = host_ns = program.graph_host_ns
    else:
        host_ns = sum(program.kernels[i].host_ns for i in program.sequence)
        first_host_ns = program.kernels[program.sequence[0]].host_ns
    waits = -(-iterations // program.sync_every)
    per_wait_ns = first_host_ns + physics.launch_latency_ns + physics.sync_return_ns
    return iterations * max(program.gpu_ns, host_ns) + waits * per_wait_ns


def scale_program(
    program: Program, recorded: AcceleratorProfile, target: AcceleratorProfile
) -> Program:
    """A program recorded on one GPU as another would run it, an estimate.

    Arithmetic goes with the compute units a kernel can use, memory traffic with bandwidth;
    clocks and architectures are taken as equal.
    """
    return replace(
        program,
        kernels=tuple(_scale_kernel(kernel, recorded, target) for kernel in program.kernels),
    )


def _scale_kernel(
    kernel: KernelSpec, recorded: AcceleratorProfile, target: AcceleratorProfile
) -> KernelSpec:
    signature = kernel.signature(0)
    narrower = signature.width_sms(recorded) / signature.width_sms(target)
    slower = recorded.bandwidth_bytes_per_s / target.bandwidth_bytes_per_s
    memory_ns = kernel.solo_ns * kernel.bandwidth_share * slower
    solo_ns = max(kernel.solo_ns * narrower, memory_ns)
    return replace(kernel, solo_ns=solo_ns, bandwidth_share=memory_ns / solo_ns)
