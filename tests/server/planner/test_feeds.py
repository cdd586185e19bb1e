"""What feeds tell of prices and carbon reaches the machine that plans, as soon as it is written."""

from dataclasses import replace

from dure.domain.fleet.accounts import FeedKind
from dure.domain.fleet.events import ClusterJoined, SeriesExtended
from dure.server.recording import FleetTap
from dure.stores.rows import Feed, FeedPoint, NewEvent
from tests.server.centres import QUICK, World, world
from tests.server.members import linked
from tests.stores.helpers import asynchronous

HOUR_NS = 3600 * 10**9
SPEC = {"region": "kr", "electricity": {"constant": 100.0}, "carbon": {"feed": "kr"}}


async def tell(centre: World, *values: float) -> None:
    """Write the points of this hour and those after it, as the interface does."""
    async with centre.store.transaction() as tx:
        hour_ns = tx.now_ns // HOUR_NS * HOUR_NS
        await tx.feeds.write(
            FeedPoint("kr", hour_ns + number * HOUR_NS, value)
            for number, value in enumerate(values)
        )
        tx.events.add(NewEvent("feed.extended", "kr"))
    centre.bus.publish("events")


@asynchronous
async def test_points_that_are_written_are_planned_with_at_once(address: str) -> None:
    settings = replace(QUICK, idle_round_s=60.0)
    async with world(address, settings=settings, spec=SPEC) as centre:
        async with centre.store.transaction() as tx:
            await tx.feeds.add(Feed("kr", FeedKind.CARBON, "g/kWh"))
        await tell(centre, 400.0)
        async with linked(centre.port, centre.secrets["seoul"], "seoul") as member:
            await member.join()
            tap = centre.core.services.recorder.open()
            assert tap is not None
            heard: list[object] = []

            async def told(kind: type) -> object:
                heard.extend(_events(tap))
                return next((each for each in heard if isinstance(each, kind)), None)

            job = await centre.submit()
            await member.wanted()
            tap.take()  # what came before
            await tell(centre, 40.0, 30.0)
            found = await centre.until(lambda: told(SeriesExtended), "the machine hears of it")
            assert found.cluster == "seoul"
            assert found.carbon_g_per_kwh.values.tolist()[-2:] == [40.0, 30.0]
            # It is no other cluster by that: nobody who waits is looked at for it.
            assert not [each for each in heard if isinstance(each, ClusterJoined)]
            await centre.cancel(job)


def _events(tap: FleetTap) -> list[object]:
    return [each[0] for each in tap.take() if isinstance(each, tuple)]
