"""How an object store is reached: its address, and the two clients that a process opens for a bucket.

`pyarrow`'s reads, lists and deletes, and writes what comes in parts. `obstore`'s does what a record waits for: it can
create an object under the condition that its name is free, and sends a small one without asking first. Both get the
same address, region and certificates; neither uses a proxy. Must not know what is stored.
"""

import os
from dataclasses import dataclass
from datetime import timedelta
from functools import cache

import pyarrow as pa
from obstore.store import S3Store
from pyarrow import fs as pafs

from holdfast.errors import HoldfastError
from holdfast_runtime.state.durable.object_answers import CLIENT_TRIES
from holdfast_runtime.state.durable.object_credentials import keys_of_profile
from holdfast_runtime.state.durable.object_writes import ObjectWrites

AT_ONCE = 32
"""Each thread waits for its round trips nearly all the time."""
_ANY_REGION = "us-east-1"
_CONNECT, _ANSWER, _IDLE = timedelta(seconds=2), timedelta(seconds=10), timedelta(seconds=15)
"""How long a connection is tried, an answer to a small object waited for, and a connection kept for the next."""
_WRITING = set[int]()
"""The process that has opened clients for writes."""


@dataclass(frozen=True, slots=True)
class S3Service:
    """How to reach an object store. Contains no credentials: each process finds those of its pod."""

    endpoint: str | None = None
    """Host and port; None means Amazon's."""
    encrypted: bool = True
    region: str | None = None
    """None: taken from the environment, or at Amazon from the bucket's location."""
    virtual_hosts: bool = False
    """Whether a custom endpoint, too, expects the bucket in the host name."""

    def opened(self, bucket: str) -> pafs.S3FileSystem:
        """Return the client that reads, one per process."""
        return reading_client(self, bucket, os.getpid())

    def writes(self, bucket: str) -> ObjectWrites:
        """Return the client that writes small objects, one per process."""
        return writing_client(self, bucket, os.getpid())

    def address(self, bucket: str, region: str) -> tuple[str, bool]:
        """Return where requests about objects of the bucket go, and whether the bucket is in the host's name."""
        endpoint = self.endpoint or os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
        if endpoint is None:
            # A certificate of Amazon's covers one label before its own names.
            virtual, scheme = "." not in bucket, "https"
            host = f"s3.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")
        else:
            virtual, scheme = self.virtual_hosts, "https" if self.encrypted else "http"
            if "://" in endpoint:
                scheme, endpoint = endpoint.split("://", 1)
            host = endpoint.rstrip("/")
        return f"{scheme}://{bucket}.{host}" if virtual else f"{scheme}://{host}", virtual


@cache
def reading_client(service: S3Service, bucket: str, _: int) -> pafs.S3FileSystem:
    """Open a client for reads. `_` is the process id: a forked child can't use its parent's client."""
    overrides = {} if service.endpoint is None else {"endpoint_override": service.endpoint}
    pa.set_io_thread_count(max(pa.io_thread_count(), AT_ONCE))  # it uploads with these
    return pafs.S3FileSystem(
        scheme="https" if service.encrypted else "http",
        region=service.region or _region(service, bucket),
        force_virtual_addressing=service.virtual_hosts,
        # A small object then takes one request instead of the three of a multipart upload.
        allow_delayed_open=True,
        retry_strategy=pafs.AwsStandardS3RetryStrategy(max_attempts=CLIENT_TRIES),
        **overrides,
    )


@cache
def writing_client(service: S3Service, bucket: str, process: int) -> ObjectWrites:
    """Open a client for small writes; raise `StoreMisuseError` in a process that was forked from one that has one."""
    _WRITING.add(process)
    if len(_WRITING) > 1:
        # Its threads stay behind in the parent, and a request would be waited for without end.
        message = (
            f"process {process} was forked from one that has written to an object store, and can't: start it anew, or "
            f"fork before the first write"
        )
        raise HoldfastError(message, code="StoreMisuseError")
    region = service.region or _region(service, bucket)
    address, virtual = service.address(bucket, region)
    store = S3Store(
        bucket,
        endpoint=address,
        region=region,
        virtual_hosted_style_request=virtual,
        conditional_put="etag",
        client_options={
            "allow_http": address.startswith("http://"),
            "connect_timeout": _CONNECT,
            "timeout": _ANSWER,
            "pool_idle_timeout": _IDLE,
            # Where the environment names a proxy this client would use it, and the other does not.
            "proxy_url": address,
            "proxy_excludes": "*,0.0.0.0/0,::/0",
        },
        retry_config={"max_retries": 0},  # what was lost is told from what was refused by ObjectStorage
        credential_provider=keys_of_profile(),
    )
    return ObjectWrites(store, address)


def _region(service: S3Service, bucket: str) -> str:
    named = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if named:
        return named
    if service.endpoint is not None or "AWS_ENDPOINT_URL" in os.environ or "AWS_ENDPOINT_URL_S3" in os.environ:
        return _ANY_REGION
    return pafs.resolve_s3_region(bucket)  # type: ignore[no-any-return]
