"""Parsing and judging of users' specs, in worker processes with limits on CPU time and memory."""
