"""The rules of join sets and counts once more, as plainly as they are told and without any regard to speed.

An oracle for the planner: it shares no code with it.
"""

from holdfast.spec.app import AppSpec
from holdfast.spec.steps import Step


def reference_sets(spec: AppSpec) -> dict[str, set[str]]:
    """Join or look-up step -> streams that must agree."""
    steps = {step.name: step for step in spec.steps}
    tables = {table.name: table for table in spec.tables}
    sets: dict[str, set[str]] = {
        step.name: set() for step in spec.steps if step.join or (step.lookup and _partitioned(spec, step.lookup.table))
    }
    starts = [stream.name for stream in spec.streams]
    starts += [step.name for step in spec.steps if step.repartition]
    for start in starts:
        visited: set[str] = set()
        todo = [step.name for step in spec.steps if start in step.inputs]
        while todo:
            name = todo.pop()
            if name in visited:
                continue
            visited.add(name)
            step = steps[name]
            if name in sets:
                sets[name].add(start)
            todo += _behind(spec, step)
    for step in spec.steps:
        if step.lookup and step.name in sets:
            sets[step.name] |= set(tables[step.lookup.table].sources or ())
    return sets


def _partitioned(spec: AppSpec, table: str) -> bool:
    return next(one for one in spec.tables if one.name == table).distribution == "Partitioned"


def _behind(spec: AppSpec, step: Step) -> list[str]:
    if step.repartition or step.broadcast:
        return []
    behind = [other.name for other in spec.steps if step.name in other.inputs]
    if step.to_table:
        behind += [other.name for other in spec.steps if other.lookup and other.lookup.table == step.to_table]
    return behind


def reference_counts(spec: AppSpec, sets: dict[str, set[str]]) -> dict[str, int]:
    """Counts of all streams of a spec that gives a count to each of its streams."""
    counts = {stream.name: stream.partitions for stream in spec.streams if stream.partitions is not None}
    counts |= {step.name: 1 for step in spec.steps if step.broadcast}
    unknown = {step.name for step in spec.steps if step.repartition}
    while True:
        resolved = {}
        for name in unknown - counts.keys():
            near = [
                counts[other] for streams in sets.values() if name in streams for other in streams if other in counts
            ]
            if near:
                resolved[name] = min(near)
        if not resolved:
            break
        counts |= resolved
    read = {name for step in spec.steps for name in step.inputs}
    written = {step.to for step in spec.steps if step.to}
    outer = [stream.partitions or 0 for stream in spec.streams if (stream.name in read) != (stream.name in written)]
    rest = spec.planning.intermediate_partitions or min(max(outer), spec.planning.max_intermediate_partitions)
    return counts | dict.fromkeys(unknown - counts.keys(), rest)
