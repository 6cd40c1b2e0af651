"""The S3 server, and the broker of changelogs beside it."""

from tests.kafka.conftest import broker
from tests.s3.fixtures import gateway

__all__ = ["broker", "gateway"]
