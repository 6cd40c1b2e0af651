"""Watermarks and ends of streams: what is said about them, what a task remembers of it and what it passes on."""
