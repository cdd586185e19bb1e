"""`dure bench containers`: ways to share a GPU among containers, in virtual time."""

from dure.cli.measuring import Json, Out, Workers, run_bench


def containers(workers: Workers = 1, as_json: Json = False, out: Out = None) -> None:
    """Containers that share a simulated GPU: plain, as in the paper, and with Dure."""
    from dure.sim.node.benches.containers import bench_containers

    run_bench(lambda tell: bench_containers(workers=workers, tell=tell), as_json=as_json, out=out)
