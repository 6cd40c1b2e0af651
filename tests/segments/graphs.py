"""Small apps as compiled graphs, given or drawn."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from holdfast.planning.plan import plan
from holdfast_runtime.segments.compiling import compile_graph
from holdfast_runtime.segments.graph import CompiledGraph, SelectSchema
from tests.planning.apps import app_of, step, stream


def same(columns: pa.Schema, texts: tuple[str, ...]) -> pa.Schema:  # noqa: ARG001 - the protocol
    """A select that leaves the columns as they are, for tests that are about nothing but the graph."""
    return columns


def read(name: str, schema: str = "k STRING, v BIGINT, ts TIMESTAMP", **fields: Any) -> dict[str, Any]:
    """A stream that is read."""
    return stream(name, schema=schema, **({"key": None} | fields))


def written(name: str = "out") -> dict[str, Any]:
    """A stream that is written, with whatever columns."""
    return stream(name, schema=None, key=None, eventTime=None)


def compiled(
    streams: Sequence[dict[str, Any]], steps: Sequence[dict[str, Any]], ask: SelectSchema = same, **spec: Any
) -> CompiledGraph:
    """The graph of an app; its plan must be valid."""
    app = app_of(list(streams), list(steps), **spec)
    made = plan(app)
    assert made.valid, [problem.message for problem in made.problems]
    return compile_graph(app.spec, made, ask)


VERBS: dict[str, dict[str, Any]] = {
    "filter": {"filter": "v > 5e-1"},
    "select": {"select": ["*"]},
    "apply": {"apply": {"function": "m:f", "keeps": ["k"]}},
    "process": {"process": {"function": "m:f", "by": ["k"], "keeps": ["k"]}},
    "to": {"to": "out"},
    "repartition": {"repartition": {"by": ["k"]}},
}


@st.composite
def graphs(draw: st.DrawFn) -> CompiledGraph:
    """Steps over two streams in any arrangement; some rows go nowhere."""
    streams = [read("a", key=["k"]), read("b", key=["k"]), written()]
    heads, steps = ["a", "b"], []
    for number in range(draw(st.integers(1, 6))):
        verb = draw(st.sampled_from([*VERBS, "merge"]))
        inputs = draw(st.lists(st.sampled_from(heads), min_size=2, max_size=3, unique=True)) if verb == "merge" else []
        name = f"x{number}"
        steps.append(step(name, *(inputs or [draw(st.sampled_from(heads))]), **VERBS.get(verb, {"merge": {}})))
        heads.append(name)
    steps.append(step("last", draw(st.sampled_from(heads)), to="out"))
    return compiled(streams, steps)
