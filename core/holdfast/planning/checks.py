"""Why: what is wrong with a plan once graph, keys and counts are known, each with numbers, path and repair.

Must not derive anything: it only compares what the other modules found.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from itertools import islice

from holdfast.placement.location import LocationInvalidError, check_location
from holdfast.planning.flow import MOST_EXPLAINED, MOST_PROBLEMS
from holdfast.planning.graph import Graph
from holdfast.planning.join_sets import JoinSet, paths_to
from holdfast.planning.key_needs import KeyNeed
from holdfast.planning.partition_counts import DecidedCount
from holdfast.planning.problems import Repair
from holdfast.planning.problems_part import Problem, StreamCount
from holdfast.planning.repair_search import PlanDraft, find_repair
from holdfast.reasons import Reason

MENDABLE = frozenset({Reason.PARTITION_COUNT_MISMATCH, Reason.KEY_MISMATCH, Reason.PARTITIONER_MISMATCH})
"""Reasons for which a `repartition` in the right place is the cure."""


def circle_problems(graph: Graph) -> Iterator[Problem]:
    """Steps that read each other in a circle."""
    if graph.circle:
        names = ", ".join(graph.circle)
        message = f"these steps read each other in a circle: {names}; no row could ever leave it"
        yield Problem(Reason.STEP_CYCLE, message, step=graph.circle[0])


def location_problems(location: str) -> Iterator[Problem]:
    """A template for locations that names what pods and nodes do not have."""
    try:
        check_location(location)
    except LocationInvalidError as error:
        yield Problem(Reason.INVALID_SPEC, str(error))


def unknown_counts(
    graph: Graph, counts: Mapping[str, DecidedCount], missing_topics: frozenset[str]
) -> Iterator[Problem]:
    """Inputs and side inputs without a count."""
    for name in sorted(graph.streams):
        if graph.role(name) not in ("input", "sideInput") or name in counts:
            continue
        stream = graph.streams[name]
        if name in missing_topics:
            topic = stream.topic or name
            message = f"topic {topic} of stream {name} does not exist in system {stream.system}; create it first"
            yield Problem(Reason.TOPIC_MISSING, message, stream=name)
        else:
            message = (
                f"nothing says how many partitions {name} has: set partitions: N on the stream, "
                f"or give --partitions {name}=N"
            )
            yield Problem(Reason.PARTITION_COUNT_UNKNOWN, message, stream=name)


def count_problems(graph: Graph, sets: tuple[JoinSet, ...], counts: Mapping[str, DecidedCount]) -> Iterator[Problem]:
    """Sets whose streams do not agree."""
    disagreeing = [one for one in sets if len(_counts(one.streams, counts)) > 1]
    joins = [set(one.streams) for one in disagreeing if one.is_join]
    told = (one for one in disagreeing if one.is_join or _says_more(one, joins, counts))
    shown = {name: StreamCount(name, count.partitions, count.how) for name, count in counts.items()}
    for nth, one in enumerate(islice(told, MOST_PROBLEMS)):
        yield _mismatch(graph, one, shown, with_paths=nth < MOST_EXPLAINED)


def _counts(streams: tuple[str, ...], counts: Mapping[str, DecidedCount]) -> set[int]:
    return {counts[name].partitions for name in streams if name in counts}


def _says_more(keyed: JoinSet, joins: list[set[str]], counts: Mapping[str, DecidedCount]) -> bool:
    """Whether a keyed step disagrees for more than joins upstream of it, which are reported already."""
    inside = [join for join in joins if join <= set(keyed.streams)]
    rest = tuple(sorted(set(keyed.streams).difference(*inside)))
    return not inside or len(_counts(rest, counts)) > 1


def _mismatch(graph: Graph, one: JoinSet, counts: Mapping[str, StreamCount], *, with_paths: bool) -> Problem:
    streams = tuple(counts[name] for name in one.streams if name in counts)
    listed = ", ".join(f"{stream.name} has {stream.partitions}" for stream in streams)
    message = f"the streams that meet in {one.verb} {one.step} need one partition count, but {listed}"
    return Problem(
        Reason.PARTITION_COUNT_MISMATCH,
        message,
        step=one.step,
        streams=streams,
        paths=paths_to(graph, one.step, tuple(stream.name for stream in streams)) if with_paths else (),
    )


Mendable = Callable[[str], bool] | None
"""Which steps may be mended, the first of them only; None: all are."""


def with_repairs(
    problems: list[Problem], situation: PlanDraft, needs: list[KeyNeed], mend_only: Mendable
) -> Iterator[Problem]:
    """The same problems, the first of them with the repair of their step where a repartition can help."""
    broken = {problem.step for problem in problems if problem.reason in MENDABLE}
    repairs: dict[str, Repair] = {}
    for need in needs:
        step = need.step.name
        if len(repairs) >= MOST_EXPLAINED:
            break
        if (
            step in broken
            and (mend_only is None or mend_only(step))
            and (repair := find_repair(situation, need)) is not None
        ):
            repairs[step] = repair
            if mend_only is not None:
                break
    for problem in problems:
        repair = repairs.get(problem.step or "") if problem.reason in MENDABLE else None
        yield problem if repair is None else replace(problem, repair=repair)
