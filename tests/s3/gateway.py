"""A real server that speaks S3 for tests, versitygw over a folder, whose objects can be looked at and spoilt.

Compiled once from its Go module, see `tests/go_programs.py`. Must not be shared by processes of pytest: each starts its
own, on a port of its own.
"""

import os
import re
import secrets
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from holdfast_runtime.checkpoint.directories import storage_at
from holdfast_runtime.state.durable.object_storage import ObjectStorage
from tests.go_programs import Program, built
from tests.kafka.broker import free_ports
from tests.waiting import wait_until

VERSITYGW = Program("versitygw", Path(__file__).parent / "versitygw", "github.com/versity/versitygw/cmd/versitygw")
CREDENTIALS = {"AWS_ACCESS_KEY_ID": "holdfast-tests", "AWS_SECRET_ACCESS_KEY": "of-no-use-elsewhere"}
_BUCKET, _LOOK = "checkpoints", "look-at-the-log-"
_LOGGED = re.compile(r" s3_(\w+) (\S+) /\S+ (\d{3}) ")
_AWAY, _LOG = 0.5, 10.0


@dataclass(frozen=True, slots=True)
class Bucket:
    """A place of its own for one test."""

    gateway: "Gateway"
    prefix: str
    endpoint: str = ""
    """Where it is reached, if not at the server itself."""

    @property
    def location(self) -> str:
        return f"s3a://{_BUCKET}/{self.prefix}"

    @property
    def conf(self) -> dict[str, str]:
        return {"spark.hadoop.fs.s3a.endpoint": self.endpoint or self.gateway.endpoint}

    @property
    def storage(self) -> ObjectStorage:
        storage = storage_at(self.location, self.conf)
        assert isinstance(storage, ObjectStorage)
        return storage

    def folder(self, directory: str) -> Path:
        """Where the server keeps the objects of a storage's directory as files."""
        return self.gateway.root / directory.removeprefix("s3a://")


class Gateway:
    """A server in a folder: `with Gateway(folder) as gateway: ... gateway.bucket()`. Its data outlive it.

    `host`: the address of this machine by which it is reached.
    """

    def __init__(self, folder: Path, host: str = "127.0.0.1") -> None:
        self.root, self._access = folder / "root", folder / "access.log"
        (self.root / _BUCKET).mkdir(parents=True)
        self._folder = folder
        self.address = f"{host}:{free_ports(1)[0]}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stop()

    @property
    def endpoint(self) -> str:
        return f"http://{self.address}"

    def bucket(self) -> Bucket:
        """A place that nobody else uses."""
        return Bucket(self, secrets.token_hex(6))

    def start(self) -> None:
        """Begin to answer."""
        self._launch()
        # The client tries again until the port is open.
        assert self.bucket().storage.names() == []

    def _launch(self) -> None:
        access, secret = CREDENTIALS.values()
        command = [str(built(VERSITYGW)), "--access", access, "--port", self.address, "--quiet"]
        with (self._folder / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--access-log", str(self._access), "posix", str(self.root)],
                env={**os.environ, "ROOT_SECRET_ACCESS_KEY": secret},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def restart(self) -> None:
        """Be away for a moment."""
        self.stop()
        timer = threading.Timer(_AWAY, self._launch)
        timer.start()

    def stop(self) -> None:
        """Answer nobody; again is fine."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()

    def asked(self, bucket: Bucket) -> Counter[str]:
        """What has been asked for below this place: requests by operation."""
        last = f"{_LOOK}{secrets.token_hex(6)}"
        # Requests come into the log in their order, so what stands before this one is all.
        assert bucket.storage.read(last) is None
        wait_until(lambda: last in self._access.read_text(), _LOG, "the server logs its requests")
        lines = [line for line in self._access.read_text().splitlines() if bucket.prefix in line and _LOOK not in line]
        return Counter(match[1] for line in lines if (match := _LOGGED.search(line)) is not None)
