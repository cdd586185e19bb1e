"""What a client can be asked for, and what comes back: scopes, pages, watch events, log options."""

from dataclasses import dataclass

from dure.kube.resources import Object


@dataclass(frozen=True)
class Scope:
    """Which objects of a kind: of a namespace or all, by labels, by fields."""

    namespace: str = ""
    """Empty for all namespaces."""
    labels: str = ""
    """A label selector, such as `app=web,tier!=test`."""
    fields: str = ""
    """A field selector, such as `spec.nodeName=node-1`."""
    names_only: bool = False
    """Whether the server sends metadata alone, not what the objects hold."""

    def query(self) -> dict[str, str]:
        """As parameters of a request."""
        stated = {"labelSelector": self.labels, "fieldSelector": self.fields}
        return {name: value for name, value in stated.items() if value}


@dataclass(frozen=True)
class Preconditions:
    """What an object must still be for a deletion to count."""

    uid: str = ""
    resource_version: str = ""

    def body(self) -> Object:
        """As the API has them; empty where there are none."""
        stated = {"uid": self.uid, "resourceVersion": self.resource_version}
        kept = {name: value for name, value in stated.items() if value}
        return {"preconditions": kept} if kept else {}


@dataclass(frozen=True)
class Page:
    """Some objects of a list, and where the list stands."""

    items: list[Object]
    resource_version: str


@dataclass(frozen=True)
class WatchEvent:
    """One line of a watch."""

    kind: str
    """ADDED, MODIFIED, DELETED or BOOKMARK."""
    object: Object


@dataclass(frozen=True)
class LogOptions:
    """Which part of a container's log."""

    container: str = ""
    """May be left out where the Pod has one."""
    follow: bool = False
    previous: bool = False
    timestamps: bool = False
    tail_lines: int | None = None
    since_s: int | None = None

    def query(self) -> dict[str, str]:
        """As parameters of a request."""
        stated: dict[str, object] = {
            "container": self.container,
            "follow": "true" if self.follow else "",
            "previous": "true" if self.previous else "",
            "timestamps": "true" if self.timestamps else "",
            "tailLines": self.tail_lines,
            "sinceSeconds": self.since_s,
        }
        return {name: str(value) for name, value in stated.items() if value not in ("", None)}
