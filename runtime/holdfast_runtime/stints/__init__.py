"""Slots that stay from batch to batch, whoever starts their processes."""
