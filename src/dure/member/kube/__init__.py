"""The carrier for Kubernetes: plans become Pods, Jobs and claims; the cluster becomes sights."""
