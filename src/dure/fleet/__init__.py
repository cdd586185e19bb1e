"""Level 3: which cluster, node and slice gets a job, at what cost, carbon and risk. Pure."""
