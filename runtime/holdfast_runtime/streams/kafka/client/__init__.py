"""Kafka clients: settings and logins, librdkafka's own calls, what a client says, errors by the way out of them."""
