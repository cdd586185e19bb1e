"""Another slice for a program that runs: its node's agent changes the limits of its tenant."""

from pathlib import Path

from dure.client.api import find_agent
from dure.client.schema import TenantPatch
from dure.domain.errors import DureError
from dure.domain.fleet.decisions import Placement
from dure.domain.fleet.slices import WHOLE_MILLI
from dure.member.process.commands import template_of, tenant_name
from dure.member.process.folders import Folder
from dure.member.process.nodes import Nodes


def resize(nodes: Nodes, folder: Folder, placement: Placement) -> None:
    """Give an instance another slice, with what the agent may refuse first; blocking.

    A whole device is no limit at all."""
    spec = folder.spec
    node = nodes.node(spec.node)
    if node is None or not node.run_dir:
        raise DureError(
            f"node {spec.node} has no agent, so that nothing limits what runs there",
            "name its run_dir in the file of nodes",
        )
    template = template_of(nodes, node, placement)
    whole = template.compute_milli >= WHOLE_MILLI
    patch = TenantPatch(
        memory_limit_bytes=None if whole else template.memory_bytes,
        sm_share=None if whole else template.compute_milli / WHOLE_MILLI,
    )
    with find_agent(Path(node.run_dir)) as agent:
        agent.change(tenant_name(spec.instance), patch)
    folder.replace_placement(placement)
