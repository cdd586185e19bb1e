"""Nodes become groups of equal ones by what their resources and labels say; no cluster needed."""

from typing import Any

import pytest

from dure.domain.errors import DureError
from dure.domain.fleet.decisions import Placement
from dure.domain.fleet.slices import ShareMode
from dure.domain.ids import ClusterId
from dure.kube.devices import UnknownDevicesError, node_devices
from dure.kube.quantities import milli, pod_requests, whole
from dure.kube.resources import Object
from dure.member.kube.board import Board
from dure.member.kube.numbering import Numbering
from dure.member.kube.settings import KubeSettings
from dure.member.ports import InventoryChanged, Taken, Warned

H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3", "nvidia.com/gpu.memory": "81559"}


def node(name: str, resources: dict[str, str], **more: Any) -> Object:
    has = {"cpu": "64", "memory": "512Gi", "pods": "110", **resources}
    ready = {"type": "Ready", "status": "True"}
    return {
        "metadata": {
            "name": name,
            "labels": more.get("labels", {}),
            "annotations": more.get("annotations", {}),
            **more.get("metadata", {}),
        },
        "spec": more.get("spec", {}),
        "status": {
            "capacity": has,
            "allocatable": has,
            "conditions": more.get("conditions", [ready]),
        },
    }


def pod(name: str, on: str, requests: dict[str, str], **more: Any) -> Object:
    return {
        "metadata": {"namespace": "x", "name": name, "uid": name, **more.get("metadata", {})},
        "spec": {"nodeName": on, "containers": [{"resources": {"requests": requests}}]},
        "status": {"phase": more.get("phase", "Running")},
    }


def board_of(*nodes: Object) -> Board:
    board = Board(KubeSettings(ClusterId("here")))
    for each in nodes:
        board.put_node(each, gone=False)
    return board


def told(board: Board) -> InventoryChanged:
    (change,) = [one for one in board.news() if isinstance(one, InventoryChanged)]
    return change


@pytest.mark.parametrize(
    ("resources", "labels", "expected"),
    [
        ({"nvidia.com/gpu": "8"}, H100, ("h100", 8, ShareMode.WHOLE)),
        (
            {"nvidia.com/gpu": "4"},
            {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-40GB", "nvidia.com/gpu.memory": "40960"},
            ("a100-40gb", 4, ShareMode.WHOLE),
        ),
        (
            {"nvidia.com/gpu": "4"},
            {"nvidia.com/gpu.product": "A100-PCIE", "nvidia.com/gpu.memory": "81920"},
            ("a100", 4, ShareMode.WHOLE),
        ),
        (
            {"nvidia.com/gpu": "1"},
            {"nvidia.com/gpu.product": "Tesla-T4"},
            ("t4", 1, ShareMode.WHOLE),
        ),
        ({"nvidia.com/gpu": "2"}, {"dure.io/profile": "L40S"}, ("l40s", 2, ShareMode.WHOLE)),
        (
            {"nvidia.com/mig-1g.10gb": "14"},
            {**H100, "nvidia.com/gpu.count": "2"},
            ("h100", 2, ShareMode.MIG),
        ),
        (
            {"nvidia.com/mig-3g.40gb": "2", "nvidia.com/mig-1g.10gb": "7"},
            {"dure.io/profile": "h100"},
            ("h100", 2, ShareMode.MIG),
        ),
        (
            {"nvidia.com/gpu": "7"},
            {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3-MIG-1g.10gb"},
            ("h100", 1, ShareMode.MIG),
        ),
        (
            {"nvidia.com/gpu.shared": "16"},
            {**H100, "nvidia.com/gpu.replicas": "4", "nvidia.com/gpu.sharing-strategy": "mps"},
            ("h100", 4, ShareMode.MPS),
        ),
        (
            {"nvidia.com/gpu": "8"},
            {
                **H100,
                "nvidia.com/gpu.replicas": "4",
                "nvidia.com/gpu.sharing-strategy": "time-slicing",
            },
            ("h100", 2, ShareMode.TIME_SLICE),
        ),
        ({"rebellions.ai/npu": "4"}, {}, ("atom", 4, ShareMode.WHOLE)),
        ({"furiosa.ai/rngd": "8"}, {}, ("rngd", 8, ShareMode.WHOLE)),
        ({"furiosa.ai/rngd-2core.12gb": "8"}, {}, ("rngd", 2, ShareMode.CORE_GROUP)),
        ({"huawei.com/Ascend910B2": "8"}, {}, ("ascend-910b", 8, ShareMode.WHOLE)),
        (
            {"aws.amazon.com/neuron": "6", "aws.amazon.com/neuroncore": "12"},
            {"node.kubernetes.io/instance-type": "inf2.24xlarge"},
            ("inferentia2", 6, ShareMode.WHOLE),
        ),
        (
            {"aws.amazon.com/neuroncore": "12"},
            {"node.kubernetes.io/instance-type": "trn1.2xlarge"},
            ("trainium", 6, ShareMode.CORE_GROUP),
        ),
    ],
)
def test_resources_and_labels_name_the_devices(
    resources: dict[str, str], labels: dict[str, str], expected: tuple[str, int, ShareMode]
) -> None:
    found = node_devices(node("one", resources, labels=labels))
    assert found is not None
    assert (found.profile.name, found.count, found.mode) == expected


@pytest.mark.parametrize(
    ("resources", "labels"),
    [
        ({"example.com/gpu": "1"}, {}),
        ({"nvidia.com/gpu": "1"}, {"nvidia.com/gpu.product": "NVIDIA-B300"}),
        ({"nvidia.com/gpu": "1"}, {}),
        ({"nvidia.com/gpu": "1"}, {"dure.io/profile": "h900"}),
        ({"aws.amazon.com/neuron": "1"}, {}),
    ],
)
def test_devices_nobody_can_name_are_named_in_a_warning(
    resources: dict[str, str], labels: dict[str, str]
) -> None:
    odd = node("odd", resources, labels=labels)
    with pytest.raises(UnknownDevicesError):
        node_devices(odd)
    board = board_of(odd, node("good", {"nvidia.com/gpu": "8"}, labels=H100))
    news = list(board.news())
    assert [one.what.split(";")[0] for one in news if isinstance(one, Warned)]
    (inventory,) = [one.inventory for one in news if isinstance(one, InventoryChanged)]
    assert [each.name for each in inventory.nodes] == ["good"]
    board.put_node(node("odd", resources, labels={**labels, "more": "1"}), gone=False)
    assert not any(isinstance(one, Warned) for one in board.news())


def test_nodes_without_accelerators_are_not_in_it() -> None:
    inventory = told(board_of(node("plain", {}), node("disk", {"example.com/ssd": "4"}))).inventory
    assert inventory.nodes == ()


def test_groups_do_not_depend_on_the_order_of_arrival() -> None:
    nodes = [
        node("b", {"nvidia.com/gpu": "8"}, labels=H100),
        node("a", {"nvidia.com/gpu": "8"}, labels=H100),
        node("c", {"nvidia.com/gpu": "4"}, labels=H100),
        node("d", {"rebellions.ai/npu": "4"}),
    ]
    one = told(board_of(*nodes)).inventory
    other = told(board_of(*reversed(nodes))).inventory
    assert one == other
    assert [group.count for group in one.groups] == [1, 1, 2]
    assert [each.name for each in one.nodes] == ["d", "c", "a", "b"]
    names = {group.name for group in one.groups}
    assert {group.name for group in told(board_of(*nodes[2:])).inventory.groups} < names


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"spec": {"unschedulable": True}}, "cordoned"),
        ({"conditions": [{"type": "Ready", "status": "Unknown", "reason": "Lost"}]}, "not ready"),
        ({"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}, "reclaimed"),
        ({"annotations": {"dure.io/reclaim-at": "2026-01-01T00:00:00Z"}}, "reclaimed"),
        (
            {
                "spec": {
                    "taints": [
                        {"key": "aws-node-termination-handler/spot-itn", "effect": "NoSchedule"}
                    ]
                }
            },
            "reclaimed",
        ),
        ({"spec": {"taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}}, "cordoned"),
        ({"spec": {"taints": [{"key": "team", "effect": "NoExecute"}]}}, "tainted team"),
        ({"spec": {"taints": [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]}}, ""),
        ({"spec": {"taints": [{"key": "team", "effect": "PreferNoSchedule"}]}}, ""),
    ],
)
def test_a_node_says_why_it_is_not_to_be_used(more: dict[str, Any], why: str) -> None:
    (fact,) = told(
        board_of(node("one", {"nvidia.com/gpu": "8"}, labels=H100, **more))
    ).inventory.nodes
    assert fact.up is not bool(why)
    assert fact.why.startswith(why)


def test_taints_that_the_settings_stand_do_not_matter() -> None:
    stood = ({"key": "team", "operator": "Equal", "value": "b"},)
    board = Board(KubeSettings(ClusterId("here"), tolerations=stood))
    taint = {"taints": [{"key": "team", "value": "b", "effect": "NoSchedule"}]}
    board.put_node(node("one", {"nvidia.com/gpu": "8"}, labels=H100, spec=taint), gone=False)
    assert told(board).inventory.nodes[0].up


def test_daemon_sets_lessen_every_node_and_others_only_their_own() -> None:
    board = board_of(*(node(name, {"nvidia.com/gpu": "8"}, labels=H100) for name in "ab"))
    owner = {"ownerReferences": [{"kind": "DaemonSet"}]}
    board.put_pod(pod("agent", "a", {"cpu": "500m", "memory": "1Gi"}, metadata=owner), gone=False)
    board.put_pod(pod("other", "b", {"cpu": "2", "nvidia.com/gpu": "3"}), gone=False)
    board.put_pod(pod("done", "b", {"nvidia.com/gpu": "2"}, phase="Succeeded"), gone=False)
    news = list(board.news())
    (group,) = next(one.inventory for one in news if isinstance(one, InventoryChanged)).groups
    assert (group.cpu_milli, group.host_memory_bytes) == (63_500, 511 << 30)
    assert [one for one in news if isinstance(one, Taken)] == [Taken("b", 3, 2000, 0)]
    board.put_pod(pod("other", "b", {"cpu": "2", "nvidia.com/gpu": "3"}), gone=True)
    assert list(board.news()) == [Taken("b")]


def test_numbers_and_names_lead_to_each_other() -> None:
    inventory = told(
        board_of(
            node("a", {"nvidia.com/gpu": "8"}, labels=H100),
            node("b", {"nvidia.com/gpu": "8"}, labels=H100),
            node("c", {"nvidia.com/gpu": "4"}, labels=H100),
        )
    ).inventory
    numbering = Numbering(inventory)
    placement = Placement(2, (4 + 8 + 3, 4 + 8 + 4), (1, 1), "whole")
    spot = numbering.spot(placement, "b")
    assert (spot.node, spot.devices) == ("b", (3, 4))
    assert numbering.placement(spot) == placement
    with pytest.raises(DureError, match="decide anew"):
        numbering.spot(placement, "a")
    with pytest.raises(DureError, match="decide anew"):
        numbering.spot(Placement(0, (4,)))


def test_an_unchanged_cluster_is_no_news() -> None:
    one = node("one", {"nvidia.com/gpu": "8"}, labels=H100)
    board = board_of(one)
    told(board)
    board.put_node({**one, "status": {**one["status"], "images": ["new"]}}, gone=False)
    assert list(board.news()) == []


def test_quantities_are_read_as_kubernetes_writes_them() -> None:
    assert [milli(text) for text in ("2", "250m", "1.5", "100u")] == [2000, 250, 1500, 1]
    assert [whole(text) for text in ("64Gi", "1k", "1e3", "512")] == [64 << 30, 1000, 1000, 512]


def test_a_pod_asks_for_its_containers_or_its_largest_first_step() -> None:
    def asks(cpu: str, **more: str) -> Object:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [asks("1"), asks("500m")],
        "initContainers": [asks("3"), asks("250m", restartPolicy="Always"), asks("4")],
        "overhead": {"cpu": "50m"},
    }
    assert pod_requests({"spec": spec})["cpu"] * 1000 == 4300
