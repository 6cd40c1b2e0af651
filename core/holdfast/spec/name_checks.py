"""What rules over several objects of a spec find: names that are unique, resolve, and go together.

As in `rule_checks`, nothing here raises, whatever else is wrong. Must not judge an object alone.
"""

from collections.abc import Callable, Iterator

from holdfast.spec.rule_checks import Broken, FieldPath, fields_of, has_name, items_of, names_of, strings_of
from holdfast.spec.verbs import STATEFUL_VERBS
from holdfast.suggest import did_you_mean


def unique(field: str) -> Callable[[object], Iterator[Broken]]:
    """Names in this list are unique."""

    def broken(spec: object) -> Iterator[Broken]:
        names: set[str] = set()
        for i, item in items_of(spec, field):
            name = item.get("name")
            if isinstance(name, str):
                if name in names:
                    yield (field, i, "name"), f"there are two of this name in {field}"
                names.add(name)

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


def changelog_in_kafka(spec: object) -> Iterator[Broken]:
    """A changelog is in a Kafka system that exists."""
    path = ("runtime", "checkpoint", "changelog")
    changelog = fields_of(spec)
    for field in path:
        changelog = fields_of(changelog.get(field))
    systems = names_of(spec, "systems", having="kafka")
    if isinstance(changelog.get("system"), str) and changelog["system"] not in systems:
        yield (*path, "system"), unknown("Kafka system", changelog["system"], systems)


def retention_in_kafka(spec: object) -> Iterator[Broken]:
    """Only topics have a retention."""
    other_systems = names_of(spec, "systems") - names_of(spec, "systems", having="kafka")
    for i, stream in items_of(spec, "streams"):
        if "retention" in stream and has_name(stream.get("system"), other_systems):
            yield ("streams", i, "retention"), f"retention is for topics; system {stream['system']} is no Kafka system"


def known_inputs(spec: object) -> Iterator[Broken]:
    """Steps read streams or steps that exist."""
    names = names_of(spec, "streams") | names_of(spec, "steps")
    for i, step in items_of(spec, "steps"):
        for j, name in strings_of(step.get("from")):
            if name not in names:
                yield ("steps", i, "from", j), unknown("stream or step", name, names)


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
        read = strings_of(fields_of(step.get("process")).get("tables"))
        named: list[tuple[FieldPath, object]] = [
            (("toTable",), step.get("toTable")),
            (("lookup", "table"), fields_of(step.get("lookup")).get("table")),
            *((("process", "tables", j), name) for j, name in read),
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
    """A table has side inputs, files or writers: one of them."""
    for field in ("sources", "files"):
        fed = names_of(spec, "tables", having=field)
        for i, step in items_of(spec, "steps"):
            if has_name(step.get("toTable"), fed):
                yield ("steps", i, "toTable"), f"table {step['toTable']} has {field}, so steps can't write it"


def former_names(spec: object) -> Iterator[Broken]:
    """The state under one name belongs to one step."""
    names, used_names = names_of(spec, "steps"), set[str]()
    for i, step in items_of(spec, "steps"):
        was = step.get("was")
        if not isinstance(was, str):
            continue
        if was in used_names or (was in names and was != step.get("name")):
            yield ("steps", i, "was"), f"another step keeps its state under the name {was}"
        used_names.add(was)


def former_streams(spec: object) -> Iterator[Broken]:
    """The name by which a run knows a stream belongs to one stream, and to no step."""
    streams, steps, used_names = names_of(spec, "streams"), names_of(spec, "steps"), set[str]()
    for i, stream in items_of(spec, "streams"):
        was = stream.get("was")
        if not isinstance(was, str):
            continue
        if was in used_names or (was in streams and was != stream.get("name")):
            yield ("streams", i, "was"), f"another stream is {was} in this run"
        if was in steps:
            yield ("streams", i, "was"), f"a step is called {was}, by which the run knows this stream"
        used_names.add(was)


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


def unknown(kind: str, name: str, names: frozenset[str]) -> str:
    """The sentence for a name that resolves to nothing."""
    return f"there is no {kind} {name}{did_you_mean(name, names)}"
