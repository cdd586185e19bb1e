"""Recordings of a centre: for how long, and how large."""

from typing import Annotated

from pydantic import ConfigDict, Field

from dure.api.base import Document
from dure.domain.units import GIB, MIB

LONGEST_S = 3600.0
MOST_BYTES = 4 * GIB


class RecordingQuery(Document):
    """For how long the planner is listened to."""

    model_config = ConfigDict(strict=False)

    seconds: Annotated[float, Field(gt=0, le=LONGEST_S)] = 60.0
    most_bytes: Annotated[int, Field(gt=0, le=MOST_BYTES)] = 64 * MIB
    """It ends before it is larger; what the centre knows comes first, and grows with its jobs."""
