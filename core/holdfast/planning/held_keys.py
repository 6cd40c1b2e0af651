"""Which task holds which state of an app: by the key of the rows that made it, and of how many partitions these came.

A run can't go on with rows that come by another key: theirs would be the state of other tasks. Nor with rows of other
streams in more or fewer partitions; whether a stream may grow is for `holdfast.tasks`. Must not judge a change:
`spec.kept_state` does.
"""

from collections.abc import Iterable, Mapping

from holdfast.planning.key_needs import KeyNeed
from holdfast.planning.partition_counts import DecidedCount, Reaching
from holdfast.planning.spread import OURS, Spread, names_in
from holdfast.spec.edits import COUNT, KEY, ORIGIN, joined_names, shortened, step_path, table_paths


def held_keys(
    key_needs: Iterable[KeyNeed],
    reaching: Reaching,
    counts: Mapping[str, DecidedCount],
    run_names: Mapping[str, str],
) -> dict[str, dict[str, str]]:
    """Return object that keeps state -> by what its state is in tasks. `run_names`: stream -> its name in the run."""
    keys_by_path: dict[str, dict[str, str]] = {}
    for need in key_needs:
        step = need.step
        if step.lookup is None:
            path = step_path(step.was or step.name) if step.to_table is None else table_paths(step.to_table)[0]
            keys_by_path[path] = {KEY: shortened(" and ".join(_key(side.spread, need.columns) for side in need.sides))}
            streams = {name for side in need.sides for name in reaching.along(side.source)}
            # Where an input has grown, tasks are still those of the partitions that they were built for.
            partitions = {counts[name].partitions for name in streams if name in counts}
            if len(partitions) == 1:
                keys_by_path[path] |= {
                    ORIGIN: shortened(joined_names([run_names.get(name, name) for name in streams])),
                    COUNT: str(*partitions),
                }
    return keys_by_path


def _key(spread: Spread, columns: tuple[str, ...]) -> str:
    """The key under the names by which state is kept: rows may have it under others too."""
    if spread.columns is None or spread.everywhere:
        return spread.text
    key = ", ".join(min(names_in(names, columns) or names) for names in spread.columns)
    return key if spread.partitioner == OURS else f"{key} ({spread.partitioner})"
