"""The programs that benches run on a real GPU: networks, steps, and a catalogue of workloads."""
