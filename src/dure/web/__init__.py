"""The dashboard: pages that agent and server hand to browsers, and a local door to both."""
