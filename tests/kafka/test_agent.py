"""One process writes for all workers of an executor: what that changes, and what it must not."""

import json
import os
import pickle
import select
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast_runtime.streams.kafka.system import WriterFactory
from tests.kafka.broker import Broker
from tests.kafka.sent import Attempt, consumed, rows_of, seen, settings_of

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).parents[2]
# A parent that begins the agent, a stranger who calls it, and workers that take turns with one slot.
PARENT = """
import json, os, pickle, sys
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client
from holdfast_runtime.streams.kafka.write import agent
agent.begin_agent()
from tests.kafka.sent import Attempt, writes
from holdfast_runtime.streams.kafka.write.agent import RemoteWriter
from holdfast_runtime.streams.kafka.system import WriterFactory
from holdfast_runtime.streams.markers import AttemptSlot
from holdfast_runtime.streams.kafka.client.errors import KafkaBusyError
from tests.kafka.sent import settings_of
bootstrap, app = sys.argv[1:3]
try:
    Client(agent.agent().name, family="AF_UNIX", authkey=b"a stranger")
except AuthenticationError:
    pass
attempt = Attempt(bootstrap, app, 1)
make = pickle.dumps(WriterFactory(settings_of(bootstrap), app, True, {}))
for batch in range(1, 7):
    if os.fork() == 0:
        writer = RemoteWriter(agent.agent(), "events", make)
        writer.send(AttemptSlot(attempt.who, 0), writes(attempt, batch, "a", 3), lambda _: None, lambda: None)
        os._exit(0)
    os.wait()
children = [int(one) for one in open(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read().split()]
print(json.dumps(children), flush=True)
writer = RemoteWriter(agent.agent(), "events", make)
for batch, line in enumerate(sys.stdin, 7):
    try:
        writer.send(AttemptSlot(attempt.who, 0), writes(attempt, batch, "a", 3), lambda _: None, lambda: None)
        print("written", flush=True)
    except KafkaBusyError as error:
        writer.send(AttemptSlot(attempt.who, 0), writes(attempt, batch, "a", 3), lambda _: None, lambda: None)
        print(error, flush=True)
"""


@pytest.fixture
def app(broker: Broker) -> str:
    name = f"app-{uuid.uuid4().hex[:8]}"
    broker.create_topic(f"{name}-out", 2)
    Attempt(broker.bootstrap, name, 1).begin()
    return name


@pytest.fixture
def parent(broker: Broker, app: str) -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-c", PARENT, broker.bootstrap, app]
    with subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.kill()


def one_more(parent: "subprocess.Popen[str]") -> str:
    """Have the parent write another batch, in one go; what it says of it."""
    assert parent.stdin is not None
    assert parent.stdout is not None
    parent.stdin.write("\n")
    parent.stdin.flush()
    return parent.stdout.readline()


def test_a_slot_among_changing_workers_is_written_by_one_process(
    broker: Broker, app: str, parent: "subprocess.Popen[str]"
) -> None:
    assert parent.stdout is not None
    (agent,) = json.loads(parent.stdout.readline())
    assert seen(broker, f"{app}-out") == rows_of("a", range(1, 7))
    for record in consumed(broker, f"{app}-out", 1, 6):
        assert record.headers() == [("row", record.value())]
    end = os.pidfd_open(agent)
    os.kill(parent.pid, signal.SIGKILL)
    assert select.select([end], [], [], 30)[0], "the agent outlives its parent"
    os.close(end)


def test_where_the_process_that_writes_has_died_workers_write_themselves(
    broker: Broker, app: str, parent: "subprocess.Popen[str]"
) -> None:
    assert parent.stdout is not None
    (agent,) = json.loads(parent.stdout.readline())
    assert one_more(parent) == "written\n"
    os.kill(agent, signal.SIGKILL)
    assert "is gone" in one_more(parent)
    assert one_more(parent) == "written\n"
    assert seen(broker, f"{app}-out") == rows_of("a", range(1, 10))


def test_what_makes_a_writer_shows_no_password() -> None:
    make = WriterFactory(settings_of("127.0.0.1:1", sasl_password="hidden-word"), "app", True, {})  # noqa: S106
    assert "hidden-word" not in repr(make)
    assert pickle.loads(pickle.dumps(make)) == make  # noqa: S301
