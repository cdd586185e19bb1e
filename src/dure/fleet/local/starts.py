"""Starts that came to nothing: the order waits again, and other nodes come first for a while."""

from dataclasses import dataclass

from dure.domain.fleet.instructions import Warn
from dure.fleet.local.admission import Admission
from dure.fleet.local.floor import Floor
from dure.fleet.local.instances import Instance
from dure.fleet.local.settings import QueueRules


@dataclass(slots=True)
class Starts:
    """Takes in that an instance could not be brought to its node."""

    floor: Floor
    admission: Admission
    rules: QueueRules

    def failed(self, instance: Instance, why: str, now_ns: int) -> bool:
        """The instance is taken back, a gang with all of it; returns whether its order goes back.

        An order that failed too often goes back to the centre, except that of a service which has
        other replicas: it goes on with those, and somebody should know.
        """
        floor, task = self.floor, instance.task
        if instance.leaving is not None:
            floor.undo_move(instance, now_ns)
            return False
        extra = task.surplus > 0
        task.shunned[instance.spot.node] = now_ns + self.rules.shun_ns
        floor.remove(instance, now_ns)
        if extra or task.arriving:
            return False
        task.failures += 1
        if not task.serving:
            floor.stop_all(task, f"its gang could not start: {why}", now_ns)
        if task.failures >= self.rules.most_failures:
            said = f"{task.failures} starts came to nothing, the last one since {why}"
            if not task.instances:
                self.admission.forget(task)
                floor.turn_down(task, said, now_ns)
                return True
            task.failures = 0
            floor.out.append(Warn(task.id, said, "look at its nodes, or ask for fewer replicas"))
        floor.restart(task, now_ns)
        return False
