"""Kafka topics: making and checking them, asking for their bounds, housekeeping behind the batches."""
