import pytest

from dure.domain.errors import InputError
from dure.kernel.machine import KernelMachine, MachineSettings
from dure.kernel.policies.registry import POLICIES, make_policy
from tests.kernel.factories import H200


@pytest.mark.parametrize("name", POLICIES)
def test_every_policy_is_made_by_its_own_name(name: str) -> None:
    assert make_policy(name).name == name


def test_an_unknown_policy_is_refused_with_the_known_ones() -> None:
    with pytest.raises(InputError, match="use one of jct, slo, hybrid"):
        make_policy("fifo")


@pytest.mark.parametrize("name", POLICIES)
def test_an_unknown_parameter_is_refused_with_the_known_ones(name: str) -> None:
    with pytest.raises(InputError, match="starvation_s"):
        make_policy(name, (("greed", 1.0),))


@pytest.mark.parametrize("value", [-0.1, float("nan"), float("inf")])
def test_an_impossible_number_is_refused(value: float) -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        make_policy("hybrid", (("fairness", value),))


def test_parameters_reach_the_policy() -> None:
    assert make_policy("hybrid", (("fairness", 0.7),)) == POLICIES["hybrid"](fairness=0.7)  # type: ignore[call-arg]


def test_a_machine_does_not_start_with_a_policy_that_is_none() -> None:
    with pytest.raises(InputError):
        KernelMachine(MachineSettings(H200, "fifo"))
