"""Dure shares accelerators between tenants: GPU kernels, containers on a host, jobs in a fleet."""

__version__ = "0.1.0"
