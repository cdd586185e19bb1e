"""Every metric Dure shows, by layer: names, units and labels are a contract with dashboards."""
