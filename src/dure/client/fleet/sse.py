"""Server-sent events, read line by line."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ServerEvent:
    """One of them."""

    kind: str
    data: str
    id: str


class EventLines:
    """Puts lines together; the last id is kept, to go on after a cut."""

    def __init__(self) -> None:
        self.last_id = ""
        self._kind = ""
        self._data: list[str] = []

    def feed(self, line: str) -> ServerEvent | None:
        """An event, if this line completes one."""
        if line:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            match name:
                case "id":
                    self.last_id = value
                case "event":
                    self._kind = value
                case "data":
                    self._data.append(value)
            return None
        kind, data = self._kind or "message", self._data
        self._kind, self._data = "", []
        return ServerEvent(kind, "\n".join(data), self.last_id) if data else None
