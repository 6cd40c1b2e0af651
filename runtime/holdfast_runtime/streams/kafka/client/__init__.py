"""Kafka clients: settings and logins, librdkafka's own calls, connection state, errors by the way out of them."""
