"""What may be recorded of an agent, and within which bounds."""

from typing import Annotated, Literal

from pydantic import Field

from dure.client.messages import Message
from dure.domain.units import GIB, MIB

LONGEST_S = 3600.0
MOST_BYTES = GIB
DEFAULT_S = 60.0
DEFAULT_BYTES = 64 * MIB
"""Three busy tenants fill some 7 MB a minute."""

AgentLevel = Literal["kernel", "node"]


class RecordingQuery(Message):
    """GET /v1/recording: a level of an agent, for a while."""

    level: AgentLevel = "kernel"
    gpu: str = ""
    """Index or UUID, of the level kernel; empty: the first."""
    seconds: Annotated[float, Field(gt=0, le=LONGEST_S)] = DEFAULT_S
    most_bytes: Annotated[int, Field(gt=0, le=MOST_BYTES)] = DEFAULT_BYTES
