"""The process in each cluster: carries plans out, reports state, decides places by itself."""
