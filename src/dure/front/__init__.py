"""A stable address before a service of the fleet: requests go to wherever its instances are."""
