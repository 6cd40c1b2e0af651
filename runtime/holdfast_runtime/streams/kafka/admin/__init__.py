"""Kafka topics: creating and checking them, asking for their bounds, housekeeping after batches."""
