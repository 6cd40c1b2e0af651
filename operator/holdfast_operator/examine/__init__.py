"""Specs that others wrote, read and judged in worker processes with limits of CPU time and memory."""
