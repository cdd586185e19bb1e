"""Settings shared by every test."""

from hypothesis import settings

settings.register_profile("dure", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("dure")
