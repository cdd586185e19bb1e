"""Policies: what a set of tenants is worth to each other. One file each, no tenant data inside."""
