"""Which job goes to which site and start slot: prices for what is scarce, then a feasible plan."""
