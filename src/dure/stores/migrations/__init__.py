"""Steps from each schema to the next, for Alembic; once released, a step is never changed."""
