"""The third layer, what people say, and what measuring tells of itself."""

from dure.domain.metrics.kinds import counter, gauge

FEEDBACK = counter("dure_feedback_total", "What people said of a tenant.", "tenant", "verdict")
READ_SECONDS = gauge(
    "dure_telemetry_read_seconds", "Length of the last reading, by layer.", "layer"
)
READ_FAILURES = counter("dure_telemetry_failures_total", "Readings that failed.", "layer")
CPU = counter(
    "dure_telemetry_cpu_seconds_total", "Processor time of measuring and of keeping.", "part"
)
SAMPLES_WRITTEN = counter("dure_series_samples_total", "Samples that were stored.")
SAMPLES_LOST = counter("dure_series_lost_samples_total", "Samples not stored.", "reason")
SAMPLES_WAITING = gauge("dure_series_waiting_samples", "Samples that wait for the store.")
SERIES_KNOWN = gauge("dure_series", "Series with a sample in the last hour.")
STORE_UP = gauge("dure_series_store_up", "1 while the store of series takes samples.")

OWN = (
    *(FEEDBACK, READ_SECONDS, READ_FAILURES, CPU),
    *(SAMPLES_WRITTEN, SAMPLES_LOST, SAMPLES_WAITING, SERIES_KNOWN, STORE_UP),
)
