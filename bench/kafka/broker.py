"""The broker of benchmarks: one of the tests', with a JVM that compiles all it can and has room, as in production."""

from tests.kafka.broker import Broker


class BenchBroker(Broker):
    """A broker that is measured beside what uses it; its segments are as long as by default."""

    more_jvm = ("-XX:TieredStopAtLevel=4", "-XX:-UseSerialGC", "-XX:+UseG1GC", "-Xms1g", "-Xmx1g")

    def __init__(self) -> None:
        super().__init__(settings={"log.segment.bytes": str(1 << 30)})
