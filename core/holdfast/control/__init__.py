"""Watermarks and ends of streams: the control messages, what a task keeps of them and what it sends on."""
