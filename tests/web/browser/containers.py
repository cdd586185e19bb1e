"""An agent process whose containers are simulated: its manager, machine and journal are real."""

import os
import sys
import threading
import time
from pathlib import Path
from typing import Any

from dure.agent import main
from dure.agent.containers.answers import ContainerDesk
from dure.agent.containers.monitor_process import MonitorProcess
from dure.agent.options import AgentOptions, ContainerOptions
from dure.client.places import Places
from tests.agent.containers.stand import Stand, container, table
from tests.agent.stand import PaperGpus

FIRST, *OTHERS = (
    container(1, name="trainer"),
    container(2, name="notebook"),
    container(3, name="batch", labels=(("dure.deadline", "10m"),)),
)


class SimulatedCare:
    """What `make_care` makes on a host with Docker."""

    def __init__(self, folder: Path) -> None:
        self._stand = Stand(folder, strategy="dure")
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._stop = threading.Event()

    @property
    def desk(self) -> ContainerDesk:
        return ContainerDesk(self._stand.manager, MonitorProcess(), os.getuid())

    def start(self) -> None:
        self._stand.start()
        self._stand.guard()
        self._stand.begin(FIRST, *OTHERS)
        self._thread.start()

    def _look(self) -> None:
        """The first computes; the others would, and are kept."""
        while not self._stop.wait(0.05):
            runs = [each for each in (FIRST, *OTHERS) if not self._stand.keeps(each)]
            idle = tuple(each for each in (FIRST, *OTHERS) if each not in runs)
            self._stand.manager.take_table(table(*runs, idle=idle))
            time.sleep(0.05)

    def heed(self, *_: Any) -> None:
        """Nothing is foreseen here."""

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._stand.stop()


if __name__ == "__main__":
    making: Any = lambda options, *_: SimulatedCare(options.places.containers_dir)  # noqa: E731
    vars(main)["make_care"] = making
    places = Places(Path(sys.argv[1]))
    gpus = PaperGpus(1)
    main.run(AgentOptions(places=places, containers=ContainerOptions()), lambda: gpus)
