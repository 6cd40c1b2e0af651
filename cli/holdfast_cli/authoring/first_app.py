"""The files of a first app: what each customer has spent so far, with a function or without, on the log or on Kafka.

Each comment teaches one thing. What is written runs as it is, and its test passes; tests hold it to that. Must not
write files.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from string import Template

from holdfast_cli.plan.builtin_commands import SCHEMA_FILE, SCHEMA_LINE, schema_text

_APP = Template("""\
$schema
# What each customer has spent so far.
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata:
  name: $name
spec:
  # Places that hold streams.
  systems:
  - name: shop
$system
  # Each partition of an input is a task; records of one key are in one partition, in order.
  streams:
  - name: orders
    system: shop
    partitions: 2
$made    key: [customer]
    schema: "customer STRING, item STRING, cents BIGINT, at TIMESTAMP"
    # When an order was made; one that comes 10 minutes after younger ones is late.
    eventTime: {column: at, lateness: 10m}
  - name: totals
    system: shop
    partitions: 2
    key: [customer]
  # Each step reads streams or other steps; `holdfast plan` knows the columns behind each.
  steps:
  - name: paid
    from: [orders]
    filter: "cents > 0"
  - name: spent
    from: [paid]
$counting
  - name: out
    from: [spent]
    to: totals
""")

_LOG = """\
    # Files on this host, without a broker. `holdfast init --kafka` shows the same app on Kafka.
    log: {}"""

_KAFKA = Template("""\
    # Each batch is one transaction with its state: every record counts once.
    kafka: {bootstrapServers: "$brokers"}""")

_MADE = """\
    # `holdfast feed` makes the topic if it is not there.
    create: true
"""

_PROCESS = """\
    # A Python function with state for each customer, in functions.py beside this file.
    process:
      function: functions:spent
      by: [customer]
      schema: "customer STRING, orders BIGINT, cents BIGINT"
      keeps: [customer]
      # A customer without orders for this long is forgotten.
      ttl: 8760h"""

_AGGREGATE = """\
    # Spark SQL over the rows of a customer and a day. Update: a row with each change; Final: one when the day is over.
    aggregate:
      by: [customer]
      window: 24h
      emit: Update
      compute: ["count(*) AS orders", "sum(cents) AS cents"]"""

_FUNCTIONS = '''\
"""The functions of app.yaml: ordinary Python, called where the state is."""

from collections.abc import Iterator

from holdfast_runtime.functions import Row, State


def spent(customer: str, rows: list[Row], state: State) -> Iterator[Row]:
    """Take the new orders of one customer, once per batch; yield rows of the schema in app.yaml."""
    # The state is like a dict. It is saved with what is put out, and is there again after any crash.
    state["orders"] = state.get("orders", 0) + len(rows)
    state["cents"] = state.get("cents", 0) + sum(row["cents"] for row in rows)
    yield {"customer": customer, "orders": state["orders"], "cents": state["cents"]}
'''

_TEST = '''\
"""Tests of app.yaml on the real engine, in this process: no Spark, no broker, no waiting. Run `pytest`."""

from pathlib import Path

import pytest
from holdfast_runtime.testing import Crashed, TestDriver

APP = str(Path(__file__).with_name("app.yaml"))


def order(app, customer, cents):
    return {"customer": customer, "item": "tea", "cents": cents, "at": app.now}


def totals(app):
    return [(row["customer"], row["orders"], row["cents"]) for row in app.rows("totals")]


def test_each_batch_adds_to_the_total():
    with TestDriver(APP) as app:
        app.feed("orders", [order(app, "ann", 500)])
        app.run_until_idle()
        # What costs nothing does not count.
        app.feed("orders", [order(app, "ann", 250), order(app, "ann", 0)])
        app.run_until_idle()
        assert totals(app) == [("ann", 1, 500), ("ann", 2, 750)]


def test_no_order_counts_twice_after_a_crash():
    with TestDriver(APP) as app:
        app.feed("orders", [order(app, "ann", 500)])
        app.crash_at("delta written")
        with pytest.raises(Crashed):
            app.run()
        app.restart()
        app.run_until_idle()
        assert totals(app) == [("ann", 1, 500)]
'''

_ORDERS = """\
{"customer": "ann", "item": "tea", "cents": 500, "at": "2026-03-01T09:00:00Z"}
{"customer": "bob", "item": "gift", "cents": 0, "at": "2026-03-01T09:00:20Z"}
{"customer": "ann", "item": "cup", "cents": 250, "at": "2026-03-01T09:01:10Z"}
{"customer": "cat", "item": "pot", "cents": 1200, "at": "2026-03-01T09:03:00Z"}
"""

_README = Template("""\
# $name

What each customer has spent so far. [app.yaml](app.yaml) is the app$function.

```sh
$commands
```

`holdfast explain REASON` says what to do about what a plan or a status says. An editor with yaml-language-server
(VS Code: the extension YAML) completes and explains the fields of app.yaml by [$schema_file]($schema_file).
$cluster""")

_COMMANDS = (
    ("pytest", "the test, on the real engine"),
    ("holdfast plan app.yaml", "what is wrong, before anything starts"),
    ("holdfast feed app.yaml orders orders.jsonl", "write orders"),
    ("holdfast run app.yaml --until-idle", "without --until-idle, until Ctrl-C"),
    ("holdfast tail app.yaml totals --from-beginning --until-end", "what came out"),
)
_CLUSTER = """
On a cluster with the operator: `holdfast render app.yaml | kubectl apply -f -`, once brokers are named that pods reach,
and `runtime.checkpoint.location`.
"""
LOCAL_BROKER = "localhost:9092"
_BROKER = ("docker run --rm -d -p 9092:9092 apache/kafka", "a broker to try it on")


@dataclass(frozen=True, slots=True)
class FirstApp:
    """What a first app is to be."""

    name: str
    brokers: str | None
    """Brokers of Kafka; None: the embedded log."""
    function: bool
    """Whether a Python function counts; otherwise Spark SQL."""

    def files(self) -> Mapping[str, str]:
        """Return the files, name -> text."""
        function = {"functions.py": _FUNCTIONS} if self.function else {}
        return {
            "app.yaml": self._app(),
            **function,
            "test_app.py": _TEST,
            "orders.jsonl": _ORDERS,
            SCHEMA_FILE: schema_text(),
            "README.md": self._readme(),
            ".gitignore": ".holdfast/\n",
        }

    def _app(self) -> str:
        return _APP.substitute(
            schema=SCHEMA_LINE,
            name=self.name,
            system=_LOG if self.brokers is None else _KAFKA.substitute(brokers=self.brokers),
            made="" if self.brokers is None else _MADE,
            counting=_PROCESS if self.function else _AGGREGATE,
        )

    def _readme(self) -> str:
        return _README.substitute(
            name=self.name,
            function=", [functions.py](functions.py) its function" if self.function else "",
            commands="\n".join(self.next_lines()),
            schema_file=SCHEMA_FILE,
            cluster="" if self.brokers is None else _CLUSTER,
        )

    def next_lines(self) -> tuple[str, ...]:
        """Return what to type next, each with what it does."""
        commands = (_BROKER, *_COMMANDS) if self.brokers == LOCAL_BROKER else _COMMANDS
        widest = max(len(command) for command, _ in commands)
        return tuple(f"{command.ljust(widest)}  # {what}" for command, what in commands)
