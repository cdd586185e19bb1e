"""The parts of `bench/record_kernels.py`; all need PyTorch and a GPU but `sequence` and `files`."""
