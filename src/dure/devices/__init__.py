"""Adapters to devices: shared memory of the data plane, NVML."""
