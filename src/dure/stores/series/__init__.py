"""Adapters to series of measurements: embedded in SQLite, VictoriaMetrics or Prometheus."""
