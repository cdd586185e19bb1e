"""Kinds of objects in the API and where they live; objects themselves stay plain mappings."""

from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import quote

Object = dict[str, Any]
"""An object of the API as in JSON: `apiVersion`, `kind`, `metadata`, and what the kind has."""


class ObjectKey(NamedTuple):
    """What an object is called in its cluster; `namespace` is empty where it has none."""

    namespace: str
    name: str


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind of objects, built-in or from a custom resource definition."""

    group: str
    """Empty for the core group."""
    version: str
    kind: str
    plural: str
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As objects state it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """Where one object, or the collection where no name is given, is found.

        A namespaced kind without a namespace is the collection over all namespaces.
        """
        parts = ["/apis", quote(self.group, safe=""), self.version]
        if not self.group:
            parts = ["/api", self.version]
        if self.namespaced and namespace:
            parts += ["namespaces", quote(namespace, safe="")]
        parts.append(self.plural)
        if name:
            parts.append(quote(name, safe=""))
        if subresource:
            parts.append(subresource)
        return "/".join(parts)


def key_of(thing: Object) -> ObjectKey:
    """What an object is called."""
    metadata = thing["metadata"]
    return ObjectKey(metadata.get("namespace", ""), metadata["name"])


def uid_of(thing: Object) -> str:
    """Names this life of an object: one deleted and made again has another."""
    return str(thing["metadata"]["uid"])


def version_of(thing: Object) -> str:
    """The object's resourceVersion: equal only where nothing changed."""
    return str(thing["metadata"]["resourceVersion"])


CONFIG_MAPS = Resource("", "v1", "ConfigMap", "configmaps")
EVENTS = Resource("", "v1", "Event", "events")
NAMESPACES = Resource("", "v1", "Namespace", "namespaces", namespaced=False)
NODES = Resource("", "v1", "Node", "nodes", namespaced=False)
PODS = Resource("", "v1", "Pod", "pods")
SECRETS = Resource("", "v1", "Secret", "secrets")
SERVICE_ACCOUNTS = Resource("", "v1", "ServiceAccount", "serviceaccounts")
SERVICES = Resource("", "v1", "Service", "services")
VOLUME_CLAIMS = Resource("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims")
ENDPOINT_SLICES = Resource("discovery.k8s.io", "v1", "EndpointSlice", "endpointslices")
HTTP_ROUTES = Resource("gateway.networking.k8s.io", "v1", "HTTPRoute", "httproutes")
JOBS = Resource("batch", "v1", "Job", "jobs")
LEASES = Resource("coordination.k8s.io", "v1", "Lease", "leases")
DEVICE_CLASSES = Resource("resource.k8s.io", "v1", "DeviceClass", "deviceclasses", namespaced=False)
RESOURCE_CLAIMS = Resource("resource.k8s.io", "v1", "ResourceClaim", "resourceclaims")
RESOURCE_CLAIM_TEMPLATES = Resource(
    "resource.k8s.io", "v1", "ResourceClaimTemplate", "resourceclaimtemplates"
)
RESOURCE_SLICES = Resource(
    "resource.k8s.io", "v1", "ResourceSlice", "resourceslices", namespaced=False
)
CUSTOM_RESOURCE_DEFINITIONS = Resource(
    "apiextensions.k8s.io",
    "v1",
    "CustomResourceDefinition",
    "customresourcedefinitions",
    namespaced=False,
)
