"""`dure bench kernel`: tenants that share one real GPU, with Dure and without."""
