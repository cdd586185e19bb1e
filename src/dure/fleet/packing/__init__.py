"""Elastic Slice Packing: which node, devices and slots take an instance, and what that costs."""
