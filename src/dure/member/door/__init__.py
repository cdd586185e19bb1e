"""The door for people who use kubectl: custom resources of a cluster as jobs of the fleet."""
