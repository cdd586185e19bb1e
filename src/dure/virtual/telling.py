"""Events of Pods in a virtual cluster, for `kubectl describe` and `kubectl get events`."""

import logging
import secrets
import time

from dure.domain.errors import DureError
from dure.kube.client import KubeClient
from dure.kube.resources import EVENTS, Object, key_of, uid_of
from dure.virtual.nodes import moment

_log = logging.getLogger("dure.virtual")

_MOST_WORDS = 1000


class Teller:
    """Says what happens to Pods; whether it is heard does not matter."""

    def __init__(self, kube: KubeClient, virtual: str) -> None:
        self._kube = kube
        self._virtual = virtual

    async def tell(self, pod: Object, reason: str, words: str, *, warning: bool = False) -> None:
        """One event of a Pod."""
        namespace, name = key_of(pod)
        now = moment(time.time())
        event = {
            "metadata": {"name": f"{name[:200]}.{secrets.token_hex(6)}", "namespace": namespace},
            "involvedObject": {
                "apiVersion": "v1",
                "kind": "Pod",
                "name": name,
                "namespace": namespace,
                "uid": uid_of(pod),
            },
            "reason": reason,
            "message": words[:_MOST_WORDS],
            "type": "Warning" if warning else "Normal",
            "source": {"component": f"dure-{self._virtual}"},
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
        try:
            await self._kube.create(EVENTS, event)
        except DureError as error:
            _log.debug("an event of %s is not told: %s", name, error)
