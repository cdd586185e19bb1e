"""The Kubernetes carrier keeps the contract of carriers, on a real API server and scheduler."""

import pytest

from tests.contracts.carriers import CarrierContract

pytestmark = pytest.mark.kube


class TestKubeCarrier(CarrierContract):
    """All rules."""
