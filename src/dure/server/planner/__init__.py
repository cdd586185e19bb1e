"""The leader's work: what happened goes into the global machine, what it decides into rows."""
