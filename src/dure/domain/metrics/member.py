"""The second layer of a cluster: how its member carries plans out."""

from dure.domain.metrics.kinds import counter, gauge

_CLUSTER = ("cluster",)
MEMBER_ACTS = gauge("dure_member_acts", "1 where this member acts for its cluster.", *_CLUSTER)
MEMBER_SYNCED = gauge("dure_member_synced", "1 once the whole cluster was seen.", *_CLUSTER)
MEMBER_SILENT = gauge("dure_member_silent_seconds", "Since the centre's last word.", *_CLUSTER)
MEMBER_ATTEMPTS = gauge("dure_member_attempts", "Attempts of jobs it looks after.", *_CLUSTER)
MEMBER_INSTANCES = gauge(
    "dure_member_instances", "Instances in the cluster, by life.", *_CLUSTER, "life"
)
MEMBER_DRIFT = gauge(
    "dure_member_drift_instances",
    "Instances that shall run and do not, or shall be gone and are not.",
    *_CLUSTER,
)
MEMBER_WORKING = gauge("dure_member_actions", "Things it does in the cluster now.", *_CLUSTER)
MEMBER_FAILURES = counter(
    "dure_member_action_failures_total", "Things it did that failed.", *_CLUSTER
)
MEMBER_FREE = gauge("dure_member_free_devices", "Devices with nothing on them.", *_CLUSTER, "site")
MEMBER_WAITING = gauge(
    "dure_member_waiting_devices", "Devices asked for by orders that wait.", *_CLUSTER, "site"
)

MEMBER = (
    *(MEMBER_ACTS, MEMBER_SYNCED, MEMBER_SILENT, MEMBER_ATTEMPTS, MEMBER_INSTANCES, MEMBER_DRIFT),
    *(MEMBER_WORKING, MEMBER_FAILURES, MEMBER_FREE, MEMBER_WAITING),
)
