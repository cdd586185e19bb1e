"""The series a file knows: their numbers, by key and by name."""

import json
import sqlite3
from collections.abc import Iterable

from dure.domain.series import Selector, SeriesKey


class KnownSeries:
    """An index in memory of the table of series; numbers are never given twice."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.numbers: dict[SeriesKey, int] = {}
        self._by_name: dict[str, dict[int, SeriesKey]] = {}
        self._by_label: dict[tuple[str, str, str], set[int]] = {}
        """Numbers by name, label and the label's value."""
        for number, name, labels in connection.execute("SELECT id, name, labels FROM series"):
            pairs = tuple((str(label), str(value)) for label, value in json.loads(labels))
            self._note(SeriesKey(name, pairs), number)

    def _note(self, key: SeriesKey, number: int) -> None:
        self.numbers[key] = number
        self._by_name.setdefault(key.name, {})[number] = key
        for label, value in key.labels:
            self._by_label.setdefault((key.name, label, value), set()).add(number)

    def names(self) -> list[str]:
        """Of all series."""
        return sorted(self._by_name)

    def matching(self, selector: Selector) -> dict[int, SeriesKey]:
        """Series by number, in the order of their labels."""
        named = self._by_name.get(selector.name, {})
        sets = [self._by_label.get((selector.name, *pair), set()) for pair in selector.labels]
        numbers = set.intersection(*sets) if sets else set(named)
        found = sorted((named[number].labels, number) for number in numbers if number in named)
        return {number: named[number] for _, number in found}

    def enter(
        self, connection: sqlite3.Connection, keys: Iterable[SeriesKey], seen_ms: int
    ) -> dict[SeriesKey, int]:
        """Numbers for new series, inside a transaction; `keep` them once that was done."""
        new: dict[SeriesKey, int] = {}
        for key in keys:
            if key in new or key in self.numbers:
                continue
            cursor = connection.execute(
                "INSERT INTO series (name, labels, seen_ms) VALUES (?, ?, ?)",
                (key.name, json.dumps(key.labels, ensure_ascii=False), seen_ms),
            )
            assert cursor.lastrowid is not None
            new[key] = cursor.lastrowid
        return new

    def keep(self, new: dict[SeriesKey, int]) -> None:
        """New series are stored."""
        for key, number in new.items():
            self._note(key, number)

    def forget(self, numbers: Iterable[int]) -> None:
        """Series are stored no more."""
        gone = set(numbers)
        for key in [key for key, number in self.numbers.items() if number in gone]:
            number = self.numbers.pop(key)
            named = self._by_name[key.name]
            del named[number]
            for label, value in key.labels:
                self._by_label[key.name, label, value].discard(number)
                if not self._by_label[key.name, label, value]:
                    del self._by_label[key.name, label, value]
            if not named:
                del self._by_name[key.name]
