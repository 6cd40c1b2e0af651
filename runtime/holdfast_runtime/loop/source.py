"""The Spark data source of the query: it asks the planner in the driver what to read next.

Spark runs the source in a process of its own. The source sends where the last batch ended and gets back where the next
one ends; Spark makes that durable before the batch starts. Spark needs a second or two to create a source, so that
begins before there is a planner, while executors come up. Must not decide anything.
"""

import secrets
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.datasource import DataSource, SimpleDataSourceStreamReader

from holdfast_runtime.checkpoint.offsets import Offsets
from holdfast_runtime.job import start_early

Answer = Callable[[Offsets], Offsets]
_ADDRESS, _SECRET = "address", "secret"
_NAME = "holdfast"


class OffsetSource(DataSource):
    """The data source as Spark sees it."""

    @classmethod
    def name(cls) -> str:
        """Return the name for `readStream.format`."""
        return _NAME

    def schema(self) -> str:
        """Return the columns: one row per batch says where it ends."""
        return "offsets STRING"

    def simpleStreamReader(self, schema: Any) -> "OffsetReader":  # noqa: ARG002, N802 - Spark's protocol
        """Return the reader of one query."""
        return OffsetReader(self.options[_ADDRESS], self.options[_SECRET])


class OffsetReader(SimpleDataSourceStreamReader):
    """Asks the planner for the next offsets."""

    def __init__(self, address: str, secret: str) -> None:
        self._address, self._secret = address, secret
        self._connection: Connection | None = None

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802 - Spark's protocol
        """Return the offsets of a run that has read nothing."""
        return _offset(Offsets())

    def read(self, start: dict[str, Any]) -> tuple[Iterator[tuple[Any, ...]], dict[str, Any]]:
        """Return where the next batch ends; `start` itself if there is nothing to do."""
        if self._connection is None:
            self._connection = Client(self._address, family="AF_UNIX", authkey=self._secret.encode())
        self._connection.send_bytes(start["offsets"].encode())
        end = self._connection.recv_bytes().decode()
        # Not a generator: Spark copies the iterator, and generators can't be copied. No row if there is nothing new.
        rows: list[tuple[Any, ...]] = [] if end == start["offsets"] else [(end,)]
        return iter(rows), {"offsets": end}

    def readBetweenOffsets(  # noqa: N802 - Spark's protocol
        self,
        start: dict[str, Any],  # noqa: ARG002
        end: dict[str, Any],
    ) -> Iterator[tuple[Any, ...]]:
        """Return the same row again, for a batch that is replayed."""
        return iter([(end["offsets"],)])

    def __getstate__(self) -> dict[str, Any]:
        return {"_address": self._address, "_secret": self._secret, "_connection": None}


def _offset(offsets: Offsets) -> dict[str, Any]:
    return {"offsets": offsets.text()}


class OffsetServer:
    """Serves the questions of one query: holds its frame, and the function that answers."""

    def __init__(self, spark: SparkSession, options: Mapping[str, str]) -> None:
        self._answer = Future[Answer]()
        self._frame = start_early(lambda: _frame(spark, options))

    def answered_by(self, answer: Answer) -> DataFrame:
        """Answer questions with this function from now on; return the frame whose source asks them.

        The function must not raise: Spark would show a trace of the source's process, which users can't make sense of.
        """
        self._answer.set_result(answer)
        return self._frame()

    def answer(self, before: Offsets) -> Offsets:
        """Answer a question; wait for `answered_by` if it comes too early."""
        return self._answer.result()(before)


@contextmanager
def serve_offsets(spark: SparkSession) -> Iterator[OffsetServer]:
    """Serve the questions of a query in a thread, and create its frame in the background."""
    secret = secrets.token_hex(16)
    with tempfile.TemporaryDirectory(prefix="holdfast-") as directory:
        address = str(Path(directory) / "planner")
        with Listener(address, family="AF_UNIX", authkey=secret.encode()) as listener:
            questions = OffsetServer(spark, {_ADDRESS: address, _SECRET: secret})
            thread = threading.Thread(target=_serve, args=(listener, questions.answer), name="planner", daemon=True)
            thread.start()
            try:
                yield questions
            finally:
                _wake(address)
                thread.join(timeout=10)


def _frame(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    spark.dataSource.register(OffsetSource)
    return spark.readStream.format(_NAME).options(**options).load()


def _serve(listener: Listener, answer: Answer) -> None:
    while True:
        try:
            connection = listener.accept()
        except (OSError, EOFError):
            return  # closed, or woken up to end
        # A thread per connection: Spark may restart its source while the old connection is still open.
        threading.Thread(target=_converse, args=(connection, answer), name="planner", daemon=True).start()


def _converse(connection: "Connection", answer: Answer) -> None:
    with connection:
        while True:
            try:
                start = connection.recv_bytes().decode()
            except (EOFError, OSError):
                return
            connection.send_bytes(answer(Offsets.parse(start)).text().encode())


def _wake(address: str) -> None:
    """Connect without the secret: `accept` raises, and the thread ends."""
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(address)
