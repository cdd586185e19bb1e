"""What a node machine was started with, as plain data, so that another can be started alike."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from dure.domain.containers import PauseWay
from dure.domain.errors import InputError
from dure.node.history import ImageRecord
from dure.node.settings import NodeSettings

IMAGE = "image"
"""Beside the settings: the machine as it was, where it was not new."""


def note_settings(settings: NodeSettings) -> dict[str, Any]:
    """Strategy, ways and history; every other setting is the default's."""
    return {
        "strategy": settings.strategy,
        "ways": [way.value for way in settings.ways],
        "history": [asdict(record) for record in settings.history],
    }


def noted_settings(note: Mapping[str, Any]) -> NodeSettings:
    """The settings that were noted."""
    try:
        return NodeSettings(
            strategy=str(note["strategy"]),
            ways=tuple(PauseWay(way) for way in note["ways"]),
            history=tuple(_record(each) for each in note["history"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InputError("the noted settings make no sense", "record anew") from error


def _record(plain: Mapping[str, Any]) -> ImageRecord:
    listed: dict[str, Any] = dict(plain)
    listed |= {name: tuple(value) for name, value in plain.items() if isinstance(value, list)}
    return ImageRecord(**listed)
