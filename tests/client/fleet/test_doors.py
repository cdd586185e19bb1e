import asyncio
import contextlib
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dure.api.base import read_document
from dure.api.clusters import ClusterSpec
from dure.api.history import EventDocument
from dure.api.jobs import JobSpec
from dure.client.fleet import (
    AsyncFleetClient,
    Context,
    FleetClient,
    RefusedError,
    UnreachableError,
    calls,
)
from dure.client.fleet.doors import EventGap
from dure.client.fleet.patience import Patience
from dure.domain.fleet.lifecycle import ClusterState, JobPhase
from dure.stores.repos.events import PRUNED
from dure.stores.repos.jobs import Step
from dure.stores.transaction import Transaction
from tests.server.rest.centre import Centre

SPEC = read_document(
    JobSpec, '{"name": "train", "kind": "training", "image": "x", "work": "1h", "gang": 2}'
)
QUICK = Patience(within_s=0.5, answer_s=10.0)


@pytest.fixture(scope="module")
def centre(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Centre]:
    folder: Path = tmp_path_factory.mktemp("doors")
    with Centre(f"sqlite:///{folder / 'state.db'}") as running:
        yield running


def context(centre: Centre, who: str = "acme", *more: str) -> Context:
    return Context((*more, centre.url), centre.secrets[who])


def closed_url() -> str:
    """An address where nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{free.getsockname()[1]}"


def end(centre: Centre, job_id: str) -> None:
    async def step(tx: Transaction) -> None:
        await tx.jobs.lock([job_id])
        await tx.jobs.step_all([Step(job_id, JobPhase.SUCCEEDED, 1, None, 0)])

    centre.do(step)


def test_calls_give_typed_documents(centre: Centre) -> None:
    with FleetClient(context(centre)) as client:
        (job_id,) = client.do(calls.submit(SPEC)).ids
        found = client.do(calls.get_job(job_id))
        assert (found.phase, found.spec) == (JobPhase.QUEUED, SPEC)
        assert client.do(calls.check(SPEC)).count == 1
        assert client.do(calls.explain_job(job_id)).attempts == []
        assert client.do(calls.cancel_job(job_id)).phase is JobPhase.CANCELLING
    with FleetClient(context(centre, "admin")) as client:
        made = client.do(calls.put_cluster("tokyo", ClusterSpec(region="jp"), calls.CREATE))
        cordoned = client.do(calls.set_cluster_state("tokyo", ClusterState.CORDONED))
        assert cordoned.state is ClusterState.CORDONED
        with pytest.raises(RefusedError) as stale:
            client.do(calls.delete_cluster("tokyo", made.revision))
        assert stale.value.status == 412
        client.do(calls.delete_cluster("tokyo", cordoned.revision))


def test_a_refusal_says_what_and_the_remedy(centre: Centre) -> None:
    with FleetClient(context(centre)) as client, pytest.raises(RefusedError) as error:
        client.do(calls.submit(SPEC.model_copy(update={"clusters": ["seol"]})))
    assert str(error.value).endswith("there is no cluster 'seol'; did you mean 'seoul'?")


def test_another_server_is_asked_where_one_is_away(centre: Centre) -> None:
    with FleetClient(context(centre, "acme", closed_url())) as client:
        assert client.do(calls.who_am_i()).tenant == "acme"
        assert client.do(calls.who_am_i()).tenant == "acme"


def test_no_server_at_all_is_one_sentence() -> None:
    with (
        FleetClient(Context((closed_url(),)), QUICK) as client,
        pytest.raises(UnreachableError, match="check that `dure server` runs"),
    ):
        client.do(calls.who_am_i())


def test_lists_are_walked_page_by_page(centre: Centre) -> None:
    with FleetClient(context(centre)) as client:
        ids = [client.do(calls.submit(SPEC)).ids[0] for _ in range(5)]
        found = [
            each.id for each in client.each(lambda cursor: calls.list_jobs(cursor=cursor, limit=2))
        ]
        assert found[-5:] == ids
        assert found == sorted(found)


def test_wait_and_watch_end_with_the_job(centre: Centre) -> None:
    with FleetClient(context(centre)) as client:
        (job_id,) = client.do(calls.submit(SPEC)).ids
        assert client.wait(job_id, 0.1).phase is JobPhase.QUEUED
        timer = threading.Timer(0.3, end, (centre, job_id))
        timer.start()
        assert [said.phase for said in client.watch(job_id)] == [
            JobPhase.QUEUED,
            JobPhase.SUCCEEDED,
        ]
        timer.join()
        assert client.wait(job_id).phase is JobPhase.SUCCEEDED


def test_events_are_followed_across_a_gap(centre: Centre) -> None:
    with FleetClient(context(centre)) as client:
        client.do(calls.submit(SPEC))
        first = next(client.events(after=0))
        assert isinstance(first, EventDocument)

        async def prune(tx: Transaction) -> int:
            last = await tx.events.last()
            await tx.events.raise_mark(PRUNED, last)
            return last

        last = centre.do(prune)
        follower = client.events(after=first.seq)
        assert next(follower) == EventGap(last)
        (job_id,) = client.do(calls.submit(SPEC)).ids
        said = next(follower)
        assert isinstance(said, EventDocument)
        assert said.subject == job_id


def test_the_door_to_be_awaited_does_the_same(centre: Centre) -> None:
    async def story() -> None:
        async with AsyncFleetClient(context(centre, "acme", closed_url())) as client:
            (job_id,) = (await client.do(calls.submit(SPEC))).ids
            assert (await client.do(calls.get_job(job_id))).spec == SPEC
            pages = client.each(lambda cursor: calls.list_jobs(cursor=cursor, limit=3))
            assert job_id in [each.id async for each in pages]
            assert (await client.wait(job_id, 0.1)).phase is JobPhase.QUEUED
            await asyncio.to_thread(end, centre, job_id)
            assert [said.phase async for said in client.watch(job_id)] == [JobPhase.SUCCEEDED]
            assert (await client.wait(job_id)).phase is JobPhase.SUCCEEDED
            with pytest.raises(RefusedError):
                await client.do(calls.get_job("0" * 26))

    asyncio.run(story())


def test_a_follower_goes_on_at_another_server_when_its_own_ends(tmp_path: Path) -> None:
    address = f"sqlite:///{tmp_path / 'state.db'}"
    with contextlib.ExitStack() as first, Centre(address) as other:
        one = first.enter_context(Centre(address))
        token = other.secrets["acme"]
        with FleetClient(Context((one.url, other.url), token)) as client:
            follower = client.events(after=0)
            assert client.do(calls.submit(SPEC)).ids == [_subject(follower)]
            first.close()
            assert client.do(calls.submit(SPEC)).ids == [_subject(follower)]


def _subject(follower: Iterator[EventDocument | EventGap]) -> str:
    said = next(follower)
    assert isinstance(said, EventDocument)
    return said.subject
