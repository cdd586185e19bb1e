import pytest

from dure.domain.ids import TenantId
from dure.domain.tenant import AvailabilitySlo, LatencySlo, Slo, Tenant, TenantClass, ThroughputSlo

PROMISES = [
    Slo(latency=LatencySlo(1)),
    Slo(throughput=ThroughputSlo(1.0)),
    Slo(availability=AvailabilitySlo(0.9)),
]


@pytest.mark.parametrize("slo", PROMISES)
def test_any_promise_protects_unless_best_effort(slo: Slo) -> None:
    assert Tenant(TenantId("a"), slo=slo).protected
    assert not Tenant(TenantId("a"), slo=slo, tenant_class=TenantClass.BEST_EFFORT).protected


def test_nothing_promised_protects_nobody() -> None:
    assert not Slo()
    assert not Tenant(TenantId("a"), tenant_class=TenantClass.GUARANTEED).protected


def test_a_percentile_leaves_the_rest_to_be_late() -> None:
    assert LatencySlo(1, 95.0).allowed_late_share == pytest.approx(0.05)
