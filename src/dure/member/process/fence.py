"""When the centre last heard of the member, in a file that every supervisor looks at.

Supervisors live on the same host and end with it, so the host's steady clock is the same for all.
"""

import asyncio
import logging
import time
from pathlib import Path

_log = logging.getLogger("dure.member.process")

FILE = "contact"


class FileFence:
    """The file."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / FILE

    async def heard(self, ago_s: float) -> None:
        """So long ago the centre surely heard of this member."""
        await asyncio.to_thread(self._write, time.monotonic() - ago_s)

    def _write(self, at_s: float) -> None:
        draft = self._file.with_name(f".{FILE}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            draft.write_text(f"{at_s:.3f}", encoding="utf-8")
            draft.replace(self._file)
        except OSError as error:
            _log.warning("the last contact cannot be noted: %s", error)
