"""Where hosts are many there is no embedded log, and streams that would be in it are refused by name."""

import pytest
from ruamel.yaml import YAML

from holdfast.errors import UserActionError
from holdfast.planning.plan import PlanningFacts, plan
from holdfast.spec.app import StreamApp
from holdfast.spec.parse import parse_app
from holdfast_runtime.streams.app_streams import StreamsEnvironment
from holdfast_runtime.streams.generator import Pace
from holdfast_runtime.streams.systems import Streams
from tests.error_codes import has_code

GENERATED = """
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: made}
spec:
  systems:
  - {name: demo, generator: {function: "f:rows", rowsPerSecond: 10}}
  streams:
  - {name: rows, system: demo, partitions: 2, key: [k], schema: "k STRING, n BIGINT"}
  steps:
  - {name: moved, from: [rows], repartition: {by: [n]}}
  - {name: kept, from: [moved], filter: "n > 1"}
  runtime: {code: {f: "def rows(numbers): return numbers"}}
"""
IN_LOG = """
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: logged}
spec:
  systems:
  - {name: here, log: {}}
  streams:
  - {name: rows, system: here, partitions: 2, key: [k], schema: "k STRING, n BIGINT"}
  - {name: out, system: here, partitions: 2, key: [k]}
  steps:
  - {name: kept, from: [rows], to: out}
"""


def parsed(text: str) -> StreamApp:
    return parse_app(YAML(typ="safe").load(text))


@pytest.mark.parametrize(("text", "what"), [(IN_LOG, "system here"), (GENERATED, "stream moved, which the app makes")])
def test_an_app_that_needs_the_embedded_log_is_refused(text: str, what: str) -> None:
    app = parsed(text)
    with pytest.raises(UserActionError, match=f"{what}.* one host alone has", check=has_code("SystemNotBuiltError")):
        Streams(
            app.name, app.spec, plan(app, PlanningFacts()), StreamsEnvironment(None, {"demo": Pace(10, 0)}), lambda: 0
        )
