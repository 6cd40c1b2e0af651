"""The operator as a service: watches, the queue of looks, the health probe, metrics."""
