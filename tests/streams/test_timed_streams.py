"""Which topics must leave timestamps as they are: those by whose records readers know event times, or may."""

from holdfast.planning.plan import PlanningFacts, plan
from holdfast_runtime.streams.systems import is_timed
from holdfast_runtime.testing.stand_ins import app_of

APP = """
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: shop}
spec:
  systems:
  - {name: here, log: {}}
  streams:
  - {name: orders, system: here, partitions: 1, key: [id], schema: "id BIGINT, ts TIMESTAMP", eventTime: {column: ts}}
  - {name: kept, system: here, partitions: 1, key: [id], schema: "id BIGINT, ts TIMESTAMP"}
  - {name: dated, system: here, partitions: 1, key: [id], schema: "id BIGINT, ts TIMESTAMP", eventTime: {column: ts}}
  - {name: shared, system: here, partitions: 1, control: true}
  - {name: out, system: here, partitions: 1}
  steps:
  - {name: to-kept, from: [orders], to: kept}
  - {name: to-dated, from: [kept], to: dated}
  - {name: moved, from: [dated], repartition: {by: [id]}}
  - {name: to-shared, from: [moved], to: shared}
  - {name: to-out, from: [moved], to: out}
"""


def test_event_times_travel_where_nothing_else_tells_them() -> None:
    app = app_of(APP)
    declared = {stream.name: stream for stream in app.spec.streams}
    timed = {one.name: is_timed(one, declared.get(one.name)) for one in plan(app, PlanningFacts()).streams}
    assert timed == {"orders": False, "kept": True, "dated": False, "moved": True, "shared": True, "out": False}
