"""What a process does with its memory before it begins to serve."""

import gc


def keep_what_is_loaded() -> None:
    """Modules stay as long as the process does: collections of garbage need not look at them.

    With what an agent or a front loads, each full collection would stop all threads for some 50 to
    100 ms.
    """
    gc.collect()
    gc.freeze()
