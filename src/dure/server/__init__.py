"""The process at the centre of the fleet."""
