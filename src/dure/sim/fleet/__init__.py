"""Level 3 in virtual time: fleets, traces, baselines, reports, benches."""
