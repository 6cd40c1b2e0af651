"""Kafka to Kafka: Holdfast beside stock Structured Streaming and Kafka Streams, on the same topics.

`python bench/kafka [--quick] [--runs N] [NAME...]`, names as in `report.BENCHMARKS`. The broker is that of the tests;
peers come from Maven Central once. Must not be imported by the product.
"""
