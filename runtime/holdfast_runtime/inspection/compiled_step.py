"""A step as tasks run it, compiled alone with all that its rows come from, without Spark.

Only a column whose type nobody but Spark knows stands in the way, and only where it reaches the step. Must not run
anything.
"""

from dataclasses import dataclass

import pyarrow as pa

from holdfast.planning.plan import Plan
from holdfast.spec.app import AppSpec
from holdfast.spec.steps import Step
from holdfast_runtime.inspection.spark_need import foreseen_columns
from holdfast_runtime.segments.compiling import compile_graph
from holdfast_runtime.segments.graph import GraphNode


@dataclass(frozen=True, slots=True)
class CompiledStep:
    """A step with the columns of what it reads."""

    step: Step
    node: GraphNode
    """What it does itself, behind the expressions of its arguments."""
    behind: GraphNode | None
    """The expressions over what that gives; None if it is what comes out."""
    inputs: tuple[pa.Schema, ...]
    """The columns of `node`'s inputs."""


def compiled_step(spec: AppSpec, plan: Plan, step: Step) -> CompiledStep:
    """Compile a step of a valid app; raise a `HoldfastError` if only Spark knows columns that it takes."""
    graph = compile_graph(_alone(spec, step), plan, foreseen_columns)
    node = next(node for node in graph.nodes if node.name == step.name and node.verb == step.verb)
    readers = (reader for reader in graph.nodes if reader.name == step.name and node.index in reader.inputs)
    inputs = tuple(graph.nodes[source].schema for source in node.inputs)
    return CompiledStep(step, node, next(readers, None), inputs)


def _alone(spec: AppSpec, step: Step) -> AppSpec:
    """Return the app with nothing but a step and all that its rows come from."""
    steps, needed, todo = {step.name: step for step in spec.steps}, set[str](), [step.name]
    tables = set[str]()
    while todo:
        name = todo.pop()
        if name in needed or name not in steps:
            continue
        needed.add(name)
        todo += steps[name].inputs
        if (lookup := steps[name].lookup) is not None:
            tables.add(lookup.table)
            todo += (writer.name for writer in spec.steps if writer.to_table == lookup.table)
        tables.update(steps[name].function_tables)
    tables |= {steps[name].to_table or "" for name in needed}
    # Steps that nobody reads are not compiled.
    reader = Step.model_construct(name=f"reader of {step.name}", inputs=(step.name,), to="nowhere")
    return spec.model_copy(
        update={
            "steps": (*(steps[name] for name in steps if name in needed), reader),
            "tables": tuple(table for table in spec.tables if table.name in tables),
        }
    )
