"""From a wish to a divided node, over a real link; and what members warn of."""

from dure.domain.fleet.lifecycle import PartitionPhase
from dure.domain.fleet.protocol.desired import Partition
from dure.domain.fleet.protocol.reports import PartitionStatus
from dure.stores import rows
from tests.server.centres import world
from tests.server.members import FakeMember, linked
from tests.stores.helpers import asynchronous


def wishes(member: FakeMember) -> tuple[Partition, ...]:
    """The last that the member was told."""
    told = [plan.surroundings for plan in member.plans if plan.surroundings is not None]
    return told[-1].partitions if told else ()


@asynchronous
async def test_a_wish_reaches_its_member_and_leaves_the_set_when_its_end_is_known(
    address: str,
) -> None:
    async with (
        world(address) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        await member.join()
        await member.until(lambda me: me.known[0] > 0)
        async with centre.store.transaction() as tx:
            number = await tx.clusters.next_revision("seoul", surroundings=True)
            await tx.partitions.ask(rows.Partition("seoul", "node-0", "all-1g.10gb", number))
        await member.until(wishes)
        assert wishes(member) == (Partition("node-0", "all-1g.10gb", number),)
        for phase, why in (
            (PartitionPhase.UNDER_WAY, "its manager"),
            (PartitionPhase.REFUSED, "devices are used by j1"),
        ):
            await member.report(partitions=(PartitionStatus("node-0", number, phase, why),))
            await member.until(lambda me: me.acked == me.seq)
            async with centre.store.reading() as tx:
                row = await tx.partitions.get("seoul", "node-0")
            assert (row.phase, row.reason) == (phase, why)
            assert (row.ended_ns is not None) is phase.ended
        await member.until(lambda me: not wishes(me))


@asynchronous
async def test_what_a_member_warns_of_becomes_an_event(address: str) -> None:
    async with (
        world(address) as centre,
        linked(centre.port, centre.secrets["seoul"], "seoul") as member,
    ):
        await member.join()
        await member.report(warnings=("node n9 has an accelerator nobody knows",))
        await member.until(lambda me: me.acked == me.seq)
        async with centre.store.reading() as tx:
            (event,) = await tx.events.latest("warning", "seoul", 5)
    assert event.data["what"] == "node n9 has an accelerator nobody knows"
