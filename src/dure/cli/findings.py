"""One line of what `dure doctor` found."""

from dataclasses import dataclass
from typing import Literal

Level = Literal["ok", "warn", "fail"]


@dataclass(frozen=True, slots=True)
class Finding:
    """One line of the doctor's answer."""

    level: Level
    subject: str
    what: str
    remedy: str = ""

    def data(self) -> dict[str, str]:
        """As JSON knows it."""
        return {
            "level": self.level,
            "subject": self.subject,
            "what": self.what,
            "remedy": self.remedy,
        }
