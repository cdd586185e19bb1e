"""The bench of moves tells when answers were slow, and who used the machine then."""

from dure.bench.centre.asking import Asked
from dure.bench.centre.moves import MoveTimes
from dure.bench.centre.moving import _parts_grid, _phase_rows
from dure.bench.centre.parts import used_by_parts


def move() -> MoveTimes:
    asked = [Asked(at / 10, 0.2 if 10 <= at / 10 < 12 else 0.01, "1") for at in range(200)]
    return MoveTimes(
        asked,
        began_s=10.0,
        ended_s=18.0,
        phases={"it starts": (10.0, 12.0), "it has 10 %": (12.0, 18.0)},
        busy=[(at / 4, 0.9 if 40 <= at < 48 else 0.5) for at in range(80)],
        used=[(float(at), {"front": 0.25 * at, "server": 0.1 * at}) for at in range(20)],
    )


def test_each_phase_has_its_own_figures() -> None:
    rows = {row[1]: row for row in _phase_rows([move()])}
    assert list(rows) == ["before", "it starts", "it has 10 %"]
    assert rows["it starts"][3:] == ("20", "200.0", "200.0", "200.0", "90")
    assert rows["it has 10 %"][3:] == ("60", "10.0", "10.0", "10.0", "50")


def test_cores_are_told_by_part() -> None:
    names, rows = _parts_grid([move()])
    assert names == ("part", "before", "it starts", "it has 10 %")
    assert rows[0] == ("front", "0.25", "0.25", "0.25")
    assert move().cores(0.0, 0.5) == {}


def test_this_process_is_who_asks() -> None:
    assert used_by_parts()["who asks"] > 0
