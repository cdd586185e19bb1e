"""What everything that the agent's API takes and gives has in common."""

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """Anything that is sent: immutable, and an unknown field is an error."""

    model_config = ConfigDict(
        frozen=True, extra="forbid", populate_by_name=True, allow_inf_nan=False
    )


class Answer(BaseModel):
    """Anything that is received: a newer agent may say more than this client knows."""

    model_config = ConfigDict(frozen=True, extra="ignore", populate_by_name=True)
