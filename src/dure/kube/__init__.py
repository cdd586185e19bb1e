"""Adapters to Kubernetes: access, a thin client, and informers that follow what is in a cluster."""
