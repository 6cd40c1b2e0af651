"""Observation of apps and their pods: the cache of watches, reads from the API server, the snapshot of a look."""
