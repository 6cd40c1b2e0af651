"""Verbs that keep state by key, row by row: `process` with its calls and timers, and `deduplicate`."""
