"""What a field manager owns is cut out of an object exactly."""

from typing import Any

from dure.beside.owned import owned_by


def thing(fields: dict[str, Any], **more: Any) -> dict[str, Any]:
    entry = {
        "manager": "kueue-admission",
        "operation": "Apply",
        "subresource": "status",
        "fieldsV1": fields,
    }
    return {
        "metadata": {"name": "one", "managedFields": [entry | more]},
        "status": {
            "conditions": [
                {"type": "QuotaReserved", "status": "True", "message": "ours"},
                {"type": "Finished", "status": "False"},
            ],
            "admission": {"clusterQueue": "gpus", "podSetAssignments": [{"name": "main"}]},
            "nodes": ["a", "b"],
            "requeueState": {"count": 1},
        },
    }


def test_maps_lists_by_key_sets_and_whole_values() -> None:
    fields = {
        "f:status": {
            "f:conditions": {'k:{"type":"QuotaReserved"}': {".": {}, "f:type": {}, "f:status": {}}},
            "f:admission": {},
            "f:nodes": {'v:"b"': {}},
            "f:gone": {},
        }
    }
    assert owned_by(thing(fields), "kueue-admission", "status") == {
        "status": {
            "conditions": [{"type": "QuotaReserved", "status": "True"}],
            "admission": {"clusterQueue": "gpus", "podSetAssignments": [{"name": "main"}]},
            "nodes": ["b"],
        }
    }


def test_what_another_manager_or_another_operation_wrote_is_not_owned() -> None:
    assert owned_by(thing({}), "somebody", "status") is None
    assert owned_by(thing({}), "kueue-admission") is None
    assert owned_by(thing({}, operation="Update"), "kueue-admission", "status") is None
