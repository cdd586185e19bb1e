from pathlib import Path

from dure.server.ports import Bus, State
from dure.stores.bus.local import LocalBus
from dure.stores.bus.nats import NatsBus
from dure.stores.store import Store
from tests.stores.helpers import asynchronous


@asynchronous
async def test_the_adapters_fit_the_ports(tmp_path: Path) -> None:
    """Held by the type checker: each assignment would be refused."""
    state: State = Store.open(f"sqlite:///{tmp_path / 'state.db'}")
    buses: list[Bus] = [LocalBus(), NatsBus("nats://127.0.0.1:1")]
    await state.migrate()
    await state.ping()
    await state.close()
    assert [bus.healthy for bus in buses] == [True, False]
