"""The work of one slot in one batch: inputs, outputs, clock, reports."""
