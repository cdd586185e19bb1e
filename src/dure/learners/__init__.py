"""Adapters to libraries of streaming learning, behind the port of `dure.telemetry`."""
