"""Properties of ClusterProfiles: what is published of a cluster is what another Dure can read."""

from dure.api.clusters import ClusterDocument, ClusterSpec, DeviceCount
from dure.beside.profiles import guest_of, properties_of
from dure.domain.fleet.lifecycle import ClusterState


def cluster(**accelerators: DeviceCount) -> ClusterDocument:
    spec = ClusterSpec.model_validate(
        {"tariff": {"currency": "EUR", "deviceHour": {"h100": 2.5}}, "carbon": 380.0}
    )
    return ClusterDocument(
        name="osaka",
        spec=spec,
        state=ClusterState.JOINED,
        connected=True,
        last_contact_at=None,
        devices=8,
        free_devices=3,
        accelerators=accelerators,
        desired_revision=1,
        accepted_epoch=1,
        accepted_revision=1,
        revision=1,
        created_at="",
    )


def test_what_is_published_is_what_is_read() -> None:
    said = properties_of(cluster(h100=DeviceCount(devices=8, free_devices=3)), 380.0, 90.0)
    guest = guest_of("osaka", said)
    assert guest is not None
    [group] = guest.groups
    assert (group.profile, group.nodes * group.devices, group.free_devices) == ("h100", 8, 3)
    assert guest.tariff.device_hour == {"h100": 2.5}
    assert (guest.tariff.currency, guest.carbon, guest.electricity) == ("EUR", 380.0, 90.0)


def test_nodes_are_as_large_as_is_said() -> None:
    said = {"dure.io/devices.h100": "20", "dure.io/node-devices.h100": "8"}
    guest = guest_of("osaka", said | {"dure.io/headroom.h100": "99"})
    assert guest is not None
    [group] = guest.groups
    assert (group.nodes, group.devices, group.free_devices) == (3, 8, 24)


def test_properties_that_say_nothing_of_devices_make_no_guest() -> None:
    assert guest_of("osaka", {}) is None
    assert guest_of("osaka", {"dure.io/devices.h100": "many", "dure.io/price.h100": "1"}) is None
    assert guest_of("osaka", {"dure.io/devices.h100": "inf"}) is None
    assert guest_of("osaka", {"dure.io/devices.abacus": "4"}) is None
