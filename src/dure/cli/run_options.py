"""The options of `dure run`, each with what `--help` says of it."""

from typing import Annotated

import typer

Command = Annotated[
    list[str],
    typer.Argument(help="The program and its arguments.", metavar="-- PROGRAM [ARGS]..."),
]
Tenant = Annotated[
    str | None,
    typer.Option(help="Its name; after its script unless given. Processes may share one."),
]
Gpu = Annotated[str | None, typer.Option(help="Index or UUID of the GPU to keep to.")]
MemoryLimit = Annotated[
    str | None, typer.Option(help="Most device memory it may take, as '20GiB'.")
]
MemoryReserve = Annotated[
    str | None, typer.Option(help="Device memory kept free for it, as '8GiB'.")
]
SmShare = Annotated[
    str | None, typer.Option(help="Least share of the GPU while it has work, as '50%'.")
]
Weight = Annotated[str | None, typer.Option(help="How much it counts beside a tenant of weight 1.")]
TenantClass = Annotated[
    str | None, typer.Option("--class", help="guaranteed, standard or best-effort.")
]
BestEffort = Annotated[
    bool, typer.Option("--best-effort", help="Takes what others leave: --class best-effort.")
]
Goal = Annotated[
    str | None, typer.Option(help="finish, slo or goodput; else it follows from the rest.")
]
Expect = Annotated[str | None, typer.Option(help="How long the job takes alone, as '2h'.")]
Deadline = Annotated[
    str | None, typer.Option(help="How long from now the job must be done, as '5h'.")
]
LatencySlo = Annotated[str | None, typer.Option(help="Latency it is promised, as 'p99=20ms'.")]
ThroughputSlo = Annotated[
    str | None, typer.Option(help="Requests a second it is promised, as '100/s'.")
]
AvailabilitySlo = Annotated[
    str | None, typer.Option(help="Share of seconds it is served well, as '99%'.")
]
CopyLimit = Annotated[str | None, typer.Option(help="Most host-device copying, as '2GB/s'.")]
Free = Annotated[
    bool,
    typer.Option("--free", help="Never hold it: its processes wait for one another."),
]
Require = Annotated[bool, typer.Option("--require", help="Refuse to run the program without Dure.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing unless something fails.")]
