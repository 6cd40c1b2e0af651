"""The S3 server."""

from tests.s3.fixtures import gateway

__all__ = ["gateway"]
