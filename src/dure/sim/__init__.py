"""Virtual-time worlds: the same deciders as in production, against modelled hardware."""
