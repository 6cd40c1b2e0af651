"""Nexmark from Kafka to Kafka: JSON in, JSON out, exactly once where an engine can.

`python -m bench.nexmark.kafka [QUERY...] [--quick] [--runs N]`. Must not be imported by the product.
"""
