"""Plain sentences that say what a tenant's settings mean under a policy."""

from collections.abc import Iterable, Iterator

from dure.domain.tenant import Slo, Tenant, TenantClass
from dure.domain.units import NS_PER_S, format_duration

_MINUTE_NS = 60 * NS_PER_S
_HOUR_NS = 60 * _MINUTE_NS

_RANKS = {
    TenantClass.GUARANTEED: "kept before anything else is done",
    TenantClass.STANDARD: "striven for after the promises of more important tenants",
}


def joined(names: Iterable[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    listed = list(names)
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} and {listed[-1]}"


def share_words(share: float) -> str:
    """A share as a percentage."""
    return f"{100 * share:.4g} %"


def span_words(ns: float) -> str:
    """A duration, in minutes and hours where it is that long."""
    for limit, unit in ((_HOUR_NS, "h"), (_MINUTE_NS, "min")):
        if ns >= limit:
            return f"{ns / limit:.3g} {unit}"
    return format_duration(ns)


def tenant_words(tenant: Tenant, policy: str, joined_ns: int) -> Iterator[str]:
    """One sentence for everything that was stated of a tenant."""
    name = tenant.id
    if tenant.slo:
        rank = _RANKS.get(tenant.tenant_class, "not kept, since it takes what is left")
        if policy == "hybrid" and tenant.protected:
            rank = "weighed against everybody's progress: choose 'keep promises' if it must hold"
        yield f"{name} was promised {promises_words(tenant.slo)}; this is {rank}."
    if tenant.floor_share > 0.0:
        yield (
            f"{name} gets at least {share_words(tenant.floor_share)} of the device's time while "
            "it has work, before any objective."
        )
    if tenant.deadline_ns is not None:
        due = span_words(tenant.deadline_ns - joined_ns)
        if policy == "jct":
            yield (
                f"{name} is due {due} after it joins; once it could only just make it, it goes "
                "before other jobs: choose 'keep promises' if it matters more than the mean "
                "completion time."
            )
        else:
            yield (
                f"{name} is due {due} after it joins; once it could only just make it, others "
                "are held for it."
            )
    if tenant.weight != 1.0:
        if policy == "jct":
            yield f"{name} has weight {tenant.weight:g}, which 'jct' does not look at."
        else:
            yield f"{name} counts {tenant.weight:g} times a tenant of weight 1."
    if tenant.tenant_class is TenantClass.BEST_EFFORT:
        yield f"{name} is of low importance: it takes what is left."


def promises_words(slo: Slo) -> str:
    """What was promised, in words; empty if nothing was."""
    parts = []
    if slo.latency is not None:
        parts.append(f"p{slo.latency.percentile:g} within {span_words(slo.latency.target_ns)}")
    if slo.throughput is not None:
        parts.append(f"{slo.throughput.items_per_s:g} requests a second")
    if slo.availability is not None:
        parts.append(f"{share_words(slo.availability.share)} availability")
    return joined(parts)
