"""Why: streams that are topics of a Kafka cluster: read by exact ranges of offsets, as Arrow, with librdkafka.

Needs the extra `kafka`; imported only when an app names a Kafka system. Must not be imported by other kinds of systems.
"""
