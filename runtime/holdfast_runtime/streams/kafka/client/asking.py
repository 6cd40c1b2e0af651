"""Why: whoever asks brokers about topics hears at once that the login is refused; the client alone would try for ever.

Must not decide what follows from an answer.
"""

import time
from collections.abc import Collection
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from holdfast_runtime.streams.kafka.client.connection import ConnectionState
from holdfast_runtime.streams.kafka.client.quiet import QUIET
from holdfast_runtime.streams.kafka.client.settings import KafkaSettings

_TICK = 0.02
"""Seconds between looks at what the client says while nothing is answered."""


def admin_client(settings: KafkaSettings, said: ConnectionState) -> AdminClient:
    """A client whose troubles `said` hears."""
    own = dict[str, Any](error_cb=partial(_heard, said))
    try:
        return AdminClient({**settings.asking(), **own}, logger=QUIET)
    except KafkaException as error:
        fault = error.args[0].str()
    # Not inside the handler, whose error shows values.
    raise settings.invalid(fault)


def answered(client: AdminClient, said: ConnectionState, futures: "Collection[Future[Any]]", seconds: float) -> bool:
    """Whether all have an answer, or a refusal, in time; raises where waiting is of no use."""
    deadline = time.monotonic() + seconds
    while wait(futures, timeout=_TICK).not_done:
        client.poll(0)  # `said` hears what there is
        said.check()
        if time.monotonic() > deadline:
            return False
    client.poll(0)
    return True


def _heard(said: ConnectionState, error: KafkaError) -> None:
    """Not a method: the client holds it, and would hold itself."""
    said.heard(error.code(), error.str())
