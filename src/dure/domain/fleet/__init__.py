"""The nouns of the fleet: profiles, slices, clusters, workloads, tenants, decisions."""
