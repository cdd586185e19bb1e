"""What an object says of itself, so that a member without memory finds everything again.

A note is one annotation: plain data as JSON, gzipped and in base64. All annotations of an object
together may have 256 KiB; notes keep to a part of that.
"""

import base64
import gzip
import io
import json
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dure.domain.errors import DureError
from dure.domain.fleet.decisions import InstanceId
from dure.domain.fleet.protocol.desired import Desired
from dure.member.kube.spots import NodeSpot
from dure.wire.plain import pack, unpack

MOST_BYTES = 192 * 1024
"""Of one note as it is written; leaves users a quarter of what annotations may have."""
_MOST_PLAIN_BYTES = 16 << 20
"""Of one note as it is read: nothing that was written here is longer."""


@dataclass(frozen=True, slots=True)
class Note:
    """What an object carries out: one instance, or the ranks of a gang in their order."""

    desired: Desired
    indexes: tuple[int, ...]
    """Of the instances."""
    spots: tuple[NodeSpot, ...]
    devices: tuple[tuple[str, ...], ...] = ()
    """Names of the devices that claims must give, for each instance; empty: no claims."""

    @property
    def instances(self) -> tuple[InstanceId, ...]:
        """What it carries out."""
        key = self.desired.key
        return tuple(InstanceId(key.job, key.attempt, index) for index in self.indexes)


def write_note(note: Note) -> str:
    """As the value of an annotation."""
    plain = {
        "desired": pack(note.desired),
        "indexes": note.indexes,
        "spots": [_spot(spot) for spot in note.spots],
        "devices": note.devices,
    }
    packed = gzip.compress(json.dumps(plain, separators=(",", ":")).encode(), mtime=0)
    text = base64.b64encode(packed).decode("ascii")
    if len(text) > MOST_BYTES:
        raise DureError(
            f"what must be noted of {note.desired.key.job} has {len(text)} bytes, more than fit",
            f"keep the program's fields below {MOST_BYTES} bytes: put files in a config map",
        )
    return text


def read_note(text: str) -> Note | None:
    """A note from an annotation's value; None where it cannot be read."""
    try:
        with gzip.open(io.BytesIO(base64.b64decode(text, validate=True))) as file:
            plain = json.loads(file.read(_MOST_PLAIN_BYTES))
        return Note(
            desired=unpack(Desired, plain["desired"]),
            indexes=tuple(int(index) for index in plain["indexes"]),
            spots=tuple(_read_spot(spot) for spot in plain["spots"]),
            devices=tuple(tuple(map(str, each)) for each in plain.get("devices", ())),
        )
    except (zlib.error, OSError, EOFError, ValueError, KeyError, TypeError, DureError):
        return None  # somebody edited it: the object is told of without


def _spot(spot: NodeSpot) -> Mapping[str, Any]:
    return {
        "node": spot.node,
        "devices": spot.devices,
        "masks": spot.masks,
        "template": spot.template,
        "compute_milli": spot.compute_milli,
    }


def _read_spot(plain: Mapping[str, Any]) -> NodeSpot:
    return NodeSpot(
        node=str(plain["node"]),
        devices=_numbers(plain["devices"]),
        masks=_numbers(plain["masks"]),
        template=str(plain["template"]),
        compute_milli=int(plain["compute_milli"]),
    )


def _numbers(plain: Sequence[Any]) -> tuple[int, ...]:
    return tuple(int(number) for number in plain)
