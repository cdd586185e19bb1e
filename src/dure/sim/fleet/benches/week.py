"""`dure bench week`: seven days of a large fleet with every feature on, by wall time and memory."""

import resource

from dure.sim.benches.report import BenchReport, Grid, Tell, Verdict, number, percent, silent
from dure.sim.fleet.large import LargeSize, large_setting
from dure.sim.fleet.run import run

MOST_MINUTES = 15.0
MOST_GIB = 8.0
_KIB_PER_GIB = 1024.0**2


def bench_week(scale: float, days: float, seed: int, *, tell: Tell = silent) -> BenchReport:
    """Make the fleet and its work, run them under `dure`, and say what that took."""
    whole = LargeSize()
    size = LargeSize(
        clusters=max(2, round(scale * whole.clusters)),
        devices=round(scale * whole.devices),
        batch=round(scale * whole.batch * days / whole.days),
        training=round(scale * whole.training * days / whole.days),
        serving=round(scale * whole.serving),
        days=days,
    )
    tell("making the fleet", 0.0)
    setting = large_setting(size, seed)
    result = run(setting, "dure", lambda share: tell(f"day {share * days:.1f}", share))
    gib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / _KIB_PER_GIB
    speed, jobs, services = result.speed, result.jobs, result.services
    full = scale == 1.0 and days == whole.days
    rows = (
        ("wall time", f"{number(speed.wall_s / 60.0)} min"),
        ("of that in the global stage", f"{number(speed.centre_s / 60.0)} min"),
        ("of that in the local stages", f"{number(speed.local_s / 60.0)} min"),
        ("most memory", f"{number(gib, 2)} GiB"),
        ("rounds", number(speed.rounds, 0)),
        ("events", number(speed.events, 0)),
        ("median round of the centre", f"{number(speed.centre_round_ms_median)} ms"),
        ("99th percentile", f"{number(speed.centre_round_ms_p99)} ms"),
        ("jobs ended", f"{number(jobs.ended, 0)} of {number(jobs.submitted, 0)}"),
        ("jobs on time", percent(jobs.on_time_share, 2)),
        ("service minutes within target", percent(services.within_target_share, 2)),
        ("compute held", percent(result.utilisation)),
        ("moves between clusters", number(result.actions.moves, 0)),
        ("moves within clusters", number(result.actions.local_moves, 0)),
        ("workers grown and shrunk", f"{result.actions.grown:,} / {result.actions.shrunk:,}"),
        ("cost", f"{number(result.money.total, 0)} {result.currency}"),
    )
    size_text = (
        f"{size.clusters} clusters, {result.devices:,} accelerators, {size.batch:,} batch, "
        f"{size.training:,} training and {size.serving:,} serving workloads, {days:g} days in "
        f"rounds of {setting.round_ns // 10**9} s"
    )
    return BenchReport(
        name="week",
        title="A large fleet for a week",
        about=f"{size_text}, made from seed {seed}, mode `dure`, one process.",
        grids=(Grid("What it took", ("", "found"), rows),),
        verdicts=(
            Verdict(
                f"at most {MOST_MINUTES:g} minutes on two cores",
                f"{number(speed.wall_s / 60.0)} minutes",
                speed.wall_s <= MOST_MINUTES * 60.0 if full else None,
            ),
            Verdict(f"at most {MOST_GIB:g} GiB", f"{number(gib, 2)} GiB", gib <= MOST_GIB),
        ),
        simulated=False,
        subject="fleet",
        figures={"wall_s": speed.wall_s, "gib": gib, "size": size, "result": result.to_json()},
    )
