"""Kafka's brokers, asked for partition counts: which addresses, login, protocol, and what was answered."""
