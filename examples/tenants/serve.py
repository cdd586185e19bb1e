"""A service: answers requests that arrive at random with a small network, and prints its latency.

    dure run --tenant web --latency-slo p99=20ms -- python examples/tenants/serve.py --rate 50

Nothing here knows of Dure except the line that reports latencies, and that one may be left out.
"""

import argparse
import random
import time

import torch

try:
    from dure.client import report
except ImportError:  # runs just as well without Dure installed

    def report(*, latency_s: float) -> bool:
        return False


def main() -> None:
    options = argparse.ArgumentParser(description="Serve requests that arrive at random.")
    options.add_argument("--rate", type=float, default=50.0, help="requests a second")
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--layers", type=int, default=12)
    chosen = options.parse_args()

    layer = torch.nn.TransformerEncoderLayer(1024, 16, 4096, batch_first=True)
    network = torch.nn.TransformerEncoder(layer, chosen.layers).half().cuda().eval()
    batch = torch.randn(8, 256, 1024, dtype=torch.float16, device="cuda")
    latencies: list[float] = []
    with torch.inference_mode():
        for _ in range(10):
            network(batch)
        torch.cuda.synchronize()
        arrival = start = time.perf_counter()
        while arrival < start + chosen.seconds:
            arrival += random.expovariate(chosen.rate)
            time.sleep(max(0.0, arrival - time.perf_counter()))
            network(batch)
            torch.cuda.synchronize()
            latencies.append(time.perf_counter() - arrival)
            report(latency_s=latencies[-1])
    latencies.sort()
    for share in (0.5, 0.99):
        print(f"p{100 * share:g}: {1000 * latencies[int(share * len(latencies))]:.1f} ms")


if __name__ == "__main__":
    main()
