"""Parts of the local stage: queue, instances, leases, autoscaling, elasticity, power, tidying."""
