"""What can go wrong between a client and the centre."""

from dure.api.problems import Problem
from dure.domain.errors import DureError


class FleetError(DureError):
    """The centre could not be asked, or refused."""


class UnreachableError(FleetError):
    """No server answers."""


class RefusedError(FleetError):
    """A server refused; `problem` says why."""

    def __init__(self, problem: Problem) -> None:
        what, _, remedy = problem.detail.partition("; ")
        super().__init__(what, remedy)
        self.problem = problem

    @property
    def status(self) -> int:
        """Of HTTP."""
        return self.problem.status


def refusal(status: int, body: bytes) -> RefusedError:
    """What a server's answer says; also of one that is not Dure's own, as a proxy's."""
    try:
        return RefusedError(Problem.model_validate_json(body))
    except ValueError:
        text = " ".join(body.decode(errors="replace").split())[:200]
        detail = f"the server answered {status} {text!r}; check its address"
        return RefusedError(
            Problem(type="about:blank", title="", status=max(100, status), detail=detail)
        )
