"""A job: trains a small convolutional network on random images, and prints its speed.

dure run --tenant train --best-effort -- python examples/tenants/train.py --steps 500
"""

import argparse
import time

import torch

try:
    from dure.client import report_progress
except ImportError:  # runs just as well without Dure installed

    def report_progress(done: float, total: float) -> bool:
        return False


def network(width: int) -> torch.nn.Module:
    """Convolutions at four sizes, then a linear layer."""
    layers: list[torch.nn.Module] = [torch.nn.Conv2d(3, width, 7, stride=2, padding=3)]
    for step in range(4):
        inside, outside = width << step, width << (step + 1)
        layers += [
            torch.nn.BatchNorm2d(inside),
            torch.nn.ReLU(inplace=True),
            torch.nn.Conv2d(inside, outside, 3, stride=2, padding=1),
        ]
    layers += [torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten()]
    return torch.nn.Sequential(*layers, torch.nn.Linear(width << 4, 1000))


def main() -> None:
    options = argparse.ArgumentParser(description="Train on random images.")
    options.add_argument("--steps", type=int, default=500)
    options.add_argument("--batch", type=int, default=128)
    chosen = options.parse_args()

    model = network(64).cuda().to(memory_format=torch.channels_last)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(chosen.batch, 3, 224, 224, device="cuda")
    images = images.to(memory_format=torch.channels_last)
    labels = torch.randint(1000, (chosen.batch,), device="cuda")
    start = time.perf_counter()
    for step in range(chosen.steps):
        optimiser.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimiser.step()
        if step % 20 == 19:
            torch.cuda.synchronize()
            speed = (step + 1) / (time.perf_counter() - start)
            print(f"step {step + 1}: loss {loss.item():.3f}, {speed:.1f} steps/s", flush=True)
            report_progress(step + 1, chosen.steps)


if __name__ == "__main__":
    main()
