"""What one slot does in one batch: its inputs, outputs, clock, and what it reports."""
