"""Partition counts from Kafka brokers: admitted addresses, login, protocol, and the cached answers."""
