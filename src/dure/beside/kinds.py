"""Objects of Kueue and of the cluster inventory, and the words that Kueue uses in them."""

from dure.kube.resources import Resource

_GROUP = "kueue.x-k8s.io"
VERSIONS = ("v1beta2", "v1beta1")
"""Of Kueue's API, the newest first."""
MULTIKUEUE = "kueue.x-k8s.io/multikueue"
"""Who looks after an AdmissionCheck that sends work to other clusters."""
ADMISSION_MANAGER = "kueue-admission"
"""Field manager of everything about a Workload's admission, `nominatedClusterNames` included."""
MOST_NOMINEES = 3
"""Clusters that are nominated at a time; Kueue would take twenty."""
QUOTA_RESERVED = "QuotaReserved"
FINISHED = "Finished"
EVICTED = "Evicted"
PENDING, READY = "Pending", "Ready"
"""States of an admission check."""

CLUSTER_PROFILES = Resource(
    "multicluster.x-k8s.io", "v1alpha1", "ClusterProfile", "clusterprofiles"
)


def workloads(version: str) -> Resource:
    """What Kueue queues."""
    return Resource(_GROUP, version, "Workload", "workloads")


def admission_checks(version: str) -> Resource:
    """What a Workload must pass beside the quota."""
    return Resource(_GROUP, version, "AdmissionCheck", "admissionchecks", namespaced=False)


def multikueue_configs(version: str) -> Resource:
    """Which clusters an admission check of MultiKueue may use."""
    return Resource(_GROUP, version, "MultiKueueConfig", "multikueueconfigs", namespaced=False)
