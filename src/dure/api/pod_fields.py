"""Fields of a Pod that a job may set, as schemas, by the names that Kubernetes gives them."""

from typing import Any

Schema = dict[str, Any]
_MOST = 64
"""Entries of a list or a mapping."""


def _text(most: int = 253) -> Schema:
    return {"type": "string", "maxLength": most}


def _list(items: Schema, most: int = _MOST) -> Schema:
    return {"type": "array", "items": items, "maxItems": most}


def _texts(most: int = _MOST) -> Schema:
    return _list(_text(), most)


def _map() -> Schema:
    return {"type": "object", "additionalProperties": _text(), "maxProperties": _MOST}


def _object(*required: str, **fields: Schema) -> Schema:
    made: Schema = {"type": "object", "properties": fields}
    return made | {"required": list(required)} if required else made


_WHOLE: Schema = {"type": "integer", "format": "int64"}
_FLAG: Schema = {"type": "boolean"}
_REQUIREMENT = _object("key", "operator", key=_text(317), operator=_text(16), values=_texts(16))
_SELECTOR = _object(matchLabels=_map(), matchExpressions=_list(_REQUIREMENT, 16))
_NODE_TERM = _object(matchExpressions=_list(_REQUIREMENT, 16), matchFields=_list(_REQUIREMENT, 16))
_POD_TERM = _object(
    "topologyKey",
    labelSelector=_SELECTOR,
    namespaces=_texts(16),
    namespaceSelector=_SELECTOR,
    topologyKey=_text(317),
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def _affinity_of_pods() -> Schema:
    preferred = _object("weight", "podAffinityTerm", weight=_WHOLE, podAffinityTerm=_POD_TERM)
    return _object(**{_REQUIRED: _list(_POD_TERM, 8), _PREFERRED: _list(preferred, 8)})


def _affinity_of_nodes() -> Schema:
    required = _object("nodeSelectorTerms", nodeSelectorTerms=_list(_NODE_TERM, 8))
    preferred = _object("weight", "preference", weight=_WHOLE, preference=_NODE_TERM)
    return _object(**{_REQUIRED: required, _PREFERRED: _list(preferred, 8)})


POD: Schema = _object(
    affinity=_object(
        nodeAffinity=_affinity_of_nodes(),
        podAffinity=_affinity_of_pods(),
        podAntiAffinity=_affinity_of_pods(),
    ),
    dnsConfig=_object(
        nameservers=_texts(3),
        searches=_texts(32),
        options=_list(_object(name=_text(), value=_text()), 16),
    ),
    dnsPolicy=_text(32),
    enableServiceLinks=_FLAG,
    hostAliases=_list(_object("ip", ip=_text(64), hostnames=_texts(32)), 32),
    imagePullSecrets=_list(_object(name=_text()), 16),
    nodeSelector=_map(),
    runtimeClassName=_text(),
    securityContext=_object(
        fsGroup=_WHOLE,
        runAsGroup=_WHOLE,
        runAsNonRoot=_FLAG,
        runAsUser=_WHOLE,
        seccompProfile=_object("type", type=_text(32), localhostProfile=_text(1024)),
        supplementalGroups=_list(_WHOLE, 32),
    ),
    tolerations=_list(
        _object(
            key=_text(317),
            operator=_text(16),
            value=_text(),
            effect=_text(32),
            tolerationSeconds=_WHOLE,
        ),
        32,
    ),
    topologySpreadConstraints=_list(
        _object(
            "maxSkew",
            "topologyKey",
            "whenUnsatisfiable",
            maxSkew=_WHOLE,
            minDomains=_WHOLE,
            topologyKey=_text(317),
            whenUnsatisfiable=_text(32),
            labelSelector=_SELECTOR,
        ),
        8,
    ),
)
"""All of `dure.api.jobs.POD_FIELDS`."""
