"""Writing Kafka: transactions with the markers of their batches, the marker topic, the fencing of earlier attempts."""
