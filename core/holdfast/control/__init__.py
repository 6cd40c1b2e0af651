"""Watermarks and ends of streams: the messages about them, what a task remembers of these and what it passes on."""
