"""What keeps the operator going: watches, the queue of looks, the health probe, metrics."""
