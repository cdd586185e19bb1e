"""`dure fleet`: what holds for the fleet: accelerators it knows, tenants, policies, settings."""

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from dure.cli import fleet_policies, fleet_settings, fleet_tenants

if TYPE_CHECKING:
    from dure.domain.fleet.profiles import DataType, DeviceProfile, Source
    from dure.domain.fleet.slices import SliceTemplate
    from dure.sim.figures import WideTable

app = typer.Typer(
    help="The fleet: accelerators and how they are shared, tenants, policies.",
    no_args_is_help=True,
)
app.add_typer(fleet_tenants.app, name="tenants")
app.add_typer(fleet_policies.app, name="policy")
app.add_typer(fleet_settings.app, name="settings")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]

_GB = 1e9
_WIDTH = 110
"""Columns where the output is not a terminal; in one, tables are split to its width."""


@app.callback()
def _group() -> None:
    """The fleet: accelerators and how they are shared, tenants, policies."""


@app.command("catalogue")
def catalogue(
    name: Annotated[
        str | None, typer.Argument(help="Show everything about one accelerator.", metavar="[NAME]")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show the accelerators known by name: memory, speed, bandwidth, power, ways to share."""
    from dure.domain.fleet.catalogue import CATALOGUE

    if name is None:
        profiles = list(CATALOGUE.values())
        if as_json:
            _echo_json({"accelerators": [profile_fields(profile) for profile in profiles]})
        else:
            _print_all(profiles)
        return
    profile = _find(name)
    if as_json:
        _echo_json(profile_fields(profile))
    else:
        _print_one(profile)


def _find(name: str) -> "DeviceProfile":
    from dure.domain.errors import InputError
    from dure.domain.fleet.catalogue import CATALOGUE
    from dure.kit.words import nearest

    profile = CATALOGUE.get(name.lower())
    if profile is None:
        raise InputError(f"'{name}' is not a known accelerator", nearest(name, CATALOGUE))
    return profile


def _echo_json(document: dict[str, Any]) -> None:
    typer.echo(json.dumps(document, indent=2, ensure_ascii=False))


def profile_fields(profile: "DeviceProfile") -> dict[str, Any]:
    """A profile as JSON knows it: everything, with slices, partitions and sources."""
    return {
        "name": profile.name,
        "vendor": profile.vendor,
        "product": profile.product,
        "kind": profile.kind.value,
        "memory_bytes": profile.memory_bytes,
        "tops": {data_type.value: speed for data_type, speed in profile.tops.items()},
        "bandwidth_bytes_per_s": profile.bandwidth_bytes_per_s,
        "link": {"kind": profile.link.kind.value, "bytes_per_s": profile.link.bytes_per_s},
        "power": {"idle_w": profile.power.idle_w, "peak_w": profile.power.peak_w},
        "shareable": profile.shareable,
        "modes": [mode.value for mode in profile.modes],
        "resource_names": list(profile.resource_names),
        "slices": [_slice_fields(template) for template in profile.slices],
        "partitions": _partitions(profile),
        "sources": {
            field: {
                "kind": source.kind.value,
                "title": source.title,
                "url": source.url,
                "note": source.note,
            }
            for field, source in profile.sources.items()
        },
    }


def _slice_fields(template: "SliceTemplate") -> dict[str, Any]:
    from dure.domain.fleet.slices import masks

    return {
        "name": template.name,
        "mode": template.mode.value,
        "slots": template.slots,
        "starts": list(template.starts),
        "device_slots": template.device_slots,
        "masks": list(masks(template)),
        "compute_milli": template.compute_milli,
        "memory_bytes": template.memory_bytes,
        "memory_enforced": template.memory_enforced,
        "bandwidth_milli": template.bandwidth_milli,
        "most": template.most,
        "mode_most": template.mode_most,
        "resource_name": template.resource_name,
    }


def _partitions(profile: "DeviceProfile") -> dict[str, list[list[str]]]:
    """The full mixes of each mode whose slices have places; the undivided device is no mix."""
    from dure.domain.fleet.profiles import full_mixes
    from dure.domain.fleet.slices import ShareMode

    mixes = {mode: full_mixes(profile, mode) for mode in profile.modes}
    return {
        mode.value: [list(mix) for mix in found]
        for mode, found in mixes.items()
        if found and mode is not ShareMode.WHOLE
    }


def _table(title: str, headings: Sequence[str], rows: Sequence[Sequence[str]]) -> "WideTable":
    """A table of words and figures that is split where the terminal is narrower."""
    from rich.text import Text

    from dure.sim.figures import TableColumn, WideTable

    return WideTable(
        title,
        tuple(
            TableColumn(
                heading,
                tuple(Text(row[index]) for row in rows),
                left=heading in _WORDS,
            )
            for index, heading in enumerate(headings)
        ),
    )


_WORDS = ("name", "vendor", "kind", "ways to share", "slice", "mode", "slots", "resource")
"""Headings of columns that have words, not figures."""


def _print_all(profiles: "list[DeviceProfile]") -> None:
    from rich.text import Text

    from dure.cli.terminal import output_console
    from dure.domain.fleet.profiles import DataType

    rows = [
        (
            profile.name,
            profile.vendor,
            profile.kind.value,
            f"{profile.memory_bytes / _GB:.0f}",
            *(_speed(profile, each) for each in (DataType.FP16, DataType.BF16, DataType.INT8)),
            f"{profile.bandwidth_bytes_per_s / _GB:.0f}",
            f"{profile.power.idle_w:.0f}-{profile.power.peak_w:.0f}",
            ", ".join(mode.value for mode in profile.modes),
        )
        for profile in profiles
    ]
    headings = ("name", "vendor", "kind", "GB", "fp16", "bf16", "int8", "GB/s", "W")
    console = output_console(_WIDTH)
    console.print(_table("Accelerators", (*headings, "ways to share"), rows))
    for line in (
        "fp16, bf16, int8: dense 10^12 operations/s. W: idle to peak.",
        "`dure fleet catalogue NAME` shows slices and sources.",
    ):
        console.print(Text(line, "dim"))


def _speed(profile: "DeviceProfile", data_type: "DataType") -> str:
    speed = profile.tops.get(data_type)
    return "-" if speed is None else f"{speed:.0f}"


def _print_one(profile: "DeviceProfile") -> None:
    from rich.console import Console
    from rich.text import Text

    from dure.cli.terminal import output_console

    console = Console()
    title = (profile.name, "bold")
    console.print(Text.assemble(title, f"  {profile.vendor} {profile.product}"))
    speeds = ", ".join(f"{each.value} {speed:g}" for each, speed in profile.tops.items())
    for line in (
        f"kind       {profile.kind.value}",
        f"memory     {profile.memory_bytes / _GB:.1f} GB",
        f"speed      {speeds} (dense 10^12 operations/s)",
        f"bandwidth  {profile.bandwidth_bytes_per_s / _GB:.0f} GB/s",
        f"link       {profile.link.kind.value}, {profile.link.bytes_per_s / _GB:.0f} GB/s one way",
        f"power      {profile.power.idle_w:g} W idle to {profile.power.peak_w:g} W at full load",
        f"shareable  {'yes' if profile.shareable else 'no'}",
    ):
        console.print(Text(line), soft_wrap=True)
    output_console(_WIDTH).print(_slice_table(profile))
    console.print(Text("* by agreement: nothing stops a holder that takes more", "dim"))
    for mode, mixes in _partitions(profile).items():
        console.print(f"full {mode} partitions: {len(mixes)}")
        for mix in mixes:
            console.print(Text("  " + " + ".join(mix)), soft_wrap=True)
    console.print("sources")
    fields_of: dict[Source, list[str]] = {}
    for field, source in profile.sources.items():
        fields_of.setdefault(source, []).append(field)
    for source, fields in fields_of.items():
        line = f"  {', '.join(fields)}: {source.kind.value}, {source.title}, {source.url}"
        console.print(Text(line), soft_wrap=True)
        if source.note:
            console.print(Text(f"    {source.note}"), soft_wrap=True)


def _slice_table(profile: "DeviceProfile") -> "WideTable":
    rows = []
    for template in profile.slices:
        starts = ",".join(str(start) for start in template.starts)
        rows.append(
            (
                template.name,
                template.mode.value,
                f"{template.compute_milli / 10:g} %",
                f"{template.memory_bytes / _GB:.1f}{'' if template.memory_enforced else ' *'}",
                f"{template.bandwidth_milli / 10:g} %",
                str(template.most),
                f"{template.slots} of {template.device_slots} from {starts}" if starts else "-",
                template.resource_name,
            )
        )
    headings = ("slice", "mode", "compute", "GB", "bandwidth", "most", "slots", "resource")
    return _table("Slices", headings, rows)
