"""The second layer on a host: containers that share its GPUs."""

from dure.domain.metrics.kinds import counter, gauge

_CONTAINER = ("container",)
CONTAINER_STATE = gauge(
    "dure_container_state", "The state a container is in; always 1.", *_CONTAINER, "state"
)
CONTAINER_SM = gauge("dure_container_sm_ratio", "Compute units in use.", *_CONTAINER)
CONTAINER_MEMORY = gauge("dure_container_memory_bytes", "GPU memory in use.", *_CONTAINER)
CONTAINER_EXPECTED = gauge(
    "dure_container_expected_memory_bytes", "GPU memory it is expected to need.", *_CONTAINER
)
CONTAINER_WAITED = gauge("dure_container_waiting_seconds", "Of its present wait.", *_CONTAINER)
CONTAINER_BURST = gauge(
    "dure_container_burst_seconds", "Learned length of its bursts of work.", *_CONTAINER
)
CONTAINERS = gauge("dure_containers", "Containers with a GPU, by state.", "state")
MONITOR_LOOKS = counter("dure_monitor_looks_total", "Looks at the processes of the GPUs.")
MONITOR_LOOK_SECONDS = gauge("dure_monitor_look_seconds", "Length of the last look.")
MONITOR_CPU = counter("dure_monitor_cpu_seconds_total", "Processor time of the monitor.")
MONITOR_DEATHS = counter("dure_monitor_deaths_total", "Times the monitor had to start anew.")

NODE = (
    *(CONTAINER_STATE, CONTAINER_SM, CONTAINER_MEMORY, CONTAINER_EXPECTED, CONTAINER_WAITED),
    *(CONTAINER_BURST, CONTAINERS),
    *(MONITOR_LOOKS, MONITOR_LOOK_SECONDS, MONITOR_CPU, MONITOR_DEATHS),
)
