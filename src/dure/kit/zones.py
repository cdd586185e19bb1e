"""Time zones by name, from the data of the host."""

import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

UTC = "UTC"


def zone_of(name: str) -> datetime.tzinfo:
    """A time zone; UTC needs no data. `ValueError` where there is none of that name."""
    if name == UTC:
        return datetime.UTC
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise ValueError(
            f"'{name}' is no time zone that this host knows; write one as Europe/Vienna"
        ) from error
