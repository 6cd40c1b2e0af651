"""Rules over a whole spec: names are unique and resolve, and nothing is fed or read in two ways.

Each function yields where its rule is broken and what to do. It sees the spec as read and never raises.
"""

from collections.abc import Callable, Iterator

from holdfast.spec.node_rules import Broken, FieldPath, fields_of, has_name, items_of, names_of, strings_of
from holdfast.spec.steps import STATEFUL_VERBS
from holdfast.suggest import did_you_mean


def unique(field: str) -> Callable[[object], Iterator[Broken]]:
    """Names in this list are unique."""

    def broken(spec: object) -> Iterator[Broken]:
        seen: set[str] = set()
        for i, item in items_of(spec, field):
            name = item.get("name")
            if isinstance(name, str):
                if name in seen:
                    yield (field, i, "name"), f"there are two of this name in {field}"
                seen.add(name)

    return broken


def streams_apart_from_steps(spec: object) -> Iterator[Broken]:
    """Streams and steps share one space of names."""
    streams = names_of(spec, "streams")
    for i, step in items_of(spec, "steps"):
        if has_name(step.get("name"), streams):
            yield ("steps", i, "name"), "a stream has this name already; streams and steps share one space of names"


def known_systems(spec: object) -> Iterator[Broken]:
    """Streams name systems that exist."""
    systems = names_of(spec, "systems")
    for i, stream in items_of(spec, "streams"):
        if isinstance(stream.get("system"), str) and stream["system"] not in systems:
            yield ("streams", i, "system"), unknown("system", stream["system"], systems)


def retention_in_kafka(spec: object) -> Iterator[Broken]:
    """Only topics have a retention."""
    kept = names_of(spec, "systems") - names_of(spec, "systems", having="kafka")
    for i, stream in items_of(spec, "streams"):
        if "retention" in stream and has_name(stream.get("system"), kept):
            yield ("streams", i, "retention"), f"retention is for topics; system {stream['system']} is no Kafka system"


def known_inputs(spec: object) -> Iterator[Broken]:
    """Steps read streams or steps that exist."""
    known = names_of(spec, "streams") | names_of(spec, "steps")
    for i, step in items_of(spec, "steps"):
        for j, name in strings_of(step.get("from")):
            if name not in known:
                yield ("steps", i, "from", j), unknown("stream or step", name, known)


def known_targets(spec: object) -> Iterator[Broken]:
    """Steps write to streams that exist."""
    streams = names_of(spec, "streams")
    for i, step in items_of(spec, "steps"):
        if isinstance(step.get("to"), str) and step["to"] not in streams:
            yield ("steps", i, "to"), unknown("stream", step["to"], streams)


def known_tables(spec: object) -> Iterator[Broken]:
    """Steps write and look up tables that exist."""
    tables = names_of(spec, "tables")
    for i, step in items_of(spec, "steps"):
        named: list[tuple[FieldPath, object]] = [
            (("toTable",), step.get("toTable")),
            (("lookup", "table"), fields_of(step.get("lookup")).get("table")),
        ]
        for path, name in named:
            if isinstance(name, str) and name not in tables:
                yield ("steps", i, *path), unknown("table", name, tables)


def known_sources(spec: object) -> Iterator[Broken]:
    """Tables are fed by streams that exist."""
    streams = names_of(spec, "streams")
    for i, table in items_of(spec, "tables"):
        for j, name in strings_of(table.get("sources")):
            if name not in streams:
                yield ("tables", i, "sources", j), unknown("stream", name, streams)


def known_dead_letters(spec: object) -> Iterator[Broken]:
    """Dead letters go to streams that exist."""
    streams = names_of(spec, "streams")
    for kind in ("streams", "steps"):
        for i, item in items_of(spec, kind):
            letters = item.get("deadLetter")
            if isinstance(letters, str) and letters not in streams:
                yield (kind, i, "deadLetter"), unknown("stream", letters, streams)


def side_inputs_apart(spec: object) -> Iterator[Broken]:
    """A side input is not read or written by steps, and takes no dead letters."""
    sources = {name for _, table in items_of(spec, "tables") for _, name in strings_of(table.get("sources"))}
    advice = "is a side input: its records are stored, not delivered; declare a second stream of the same topic"
    for i, step in items_of(spec, "steps"):
        for j, name in strings_of(step.get("from")):
            if name in sources:
                yield ("steps", i, "from", j), f"{name} {advice}"
        if isinstance(step.get("to"), str) and step["to"] in sources:
            yield ("steps", i, "to"), f"{step['to']} {advice}"
    for kind in ("streams", "steps"):
        for i, item in items_of(spec, kind):
            if has_name(item.get("deadLetter"), sources):
                yield (kind, i, "deadLetter"), f"{item['deadLetter']} {advice}"


def one_feed(spec: object) -> Iterator[Broken]:
    """A table has side inputs or writers, not both."""
    fed = names_of(spec, "tables", having="sources")
    for i, step in items_of(spec, "steps"):
        if has_name(step.get("toTable"), fed):
            yield (
                ("steps", i, "toTable"),
                f"table {step['toTable']} has sources; a table has side inputs or writers, not both",
            )


def former_names(spec: object) -> Iterator[Broken]:
    """The state under one name belongs to one step."""
    names, taken = names_of(spec, "steps"), set[str]()
    for i, step in items_of(spec, "steps"):
        was = step.get("was")
        if not isinstance(was, str):
            continue
        if was in taken or (was in names and was != step.get("name")):
            yield ("steps", i, "was"), f"another step keeps its state under the name {was}"
        taken.add(was)


def generators_are_read_only(spec: object) -> Iterator[Broken]:
    """A stream of a generator is not written to."""
    made = names_of(spec, "systems", having="generator")
    of_made = [stream for _, stream in items_of(spec, "streams") if has_name(stream.get("system"), made)]
    streams = names_of({"streams": of_made}, "streams")
    for i, step in items_of(spec, "steps"):
        if has_name(step.get("to"), streams):
            yield ("steps", i, "to"), f"{step['to']} belongs to a generator, which can't be written to"
    for kind in ("streams", "steps"):
        for i, item in items_of(spec, kind):
            if has_name(item.get("deadLetter"), streams):
                yield (kind, i, "deadLetter"), f"{item['deadLetter']} belongs to a generator, which can't be written to"


def stateless_grouping(spec: object) -> Iterator[Broken]:
    """An app with state is not grouped by stream partition."""
    if fields_of(spec).get("grouping") != "ByStreamPartition":
        return
    for _, step in items_of(spec, "steps"):
        verb = next((verb for verb in STATEFUL_VERBS if verb in step), None)
        if verb is not None:
            yield ("grouping",), f"ByStreamPartition is for apps without state, but step {step.get('name')} is a {verb}"
            return


def unknown(kind: str, name: str, known: frozenset[str]) -> str:
    """The sentence for a name that resolves to nothing."""
    return f"there is no {kind} {name}{did_you_mean(name, known)}"
