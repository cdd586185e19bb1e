"""Process of a dedicated virtual cluster: an API server whose nodes are a tenant's pools."""
