"""Streams that are topics of a Kafka cluster: read by exact ranges of offsets, as Arrow, with librdkafka.

`client` knows librdkafka; `read`, `write` and `admin` know `client` and not each other; `system` combines them. Needs
the extra `kafka`. Must not be imported by other kinds of systems, nor by the batch loop, slots or steps.
"""
