"""What rules of a spec find: over an object (a system, a step, a table), and over names that are unique and resolve.

`rules` lists them beside their CEL. Each function yields where its rule is broken, below the object, and what to do.
Rules must find their errors whatever else is wrong: they see the object as read, what has the wrong shape looks empty
because the model reports it, and nothing here raises.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any

from holdfast.spec.values import is_duration, millis
from holdfast.spec.verbs import FAILING_VERBS, KEYED_VERBS, LATE_VERBS, STATEFUL_VERBS, TIME_SETTING_VERBS, VERBS
from holdfast.suggest import did_you_mean


def fields_of(tree: object) -> dict[Any, Any]:
    """The fields of a tree, none if it is no object. A field that is null is not given."""
    return {name: value for name, value in tree.items() if value is not None} if isinstance(tree, dict) else {}


def items_of(tree: object, field: str) -> list[tuple[int, dict[Any, Any]]]:
    """Index and item of a list of objects."""
    value = fields_of(tree).get(field)
    return (
        [(i, fields_of(item)) for i, item in enumerate(value) if isinstance(item, dict)]
        if isinstance(value, list)
        else []
    )


def names_of(tree: object, field: str, having: str | None = None) -> frozenset[str]:
    """The names in a list of named objects, or of those that have a field."""
    items = (item for _, item in items_of(tree, field) if having is None or having in item)
    # A name may be anything as long as nobody has looked at it, even something that no set can hold.
    return frozenset(item["name"] for item in items if isinstance(item.get("name"), str))


def strings_of(value: object) -> list[tuple[int, str]]:
    """Index and item of a list of strings."""
    return [(i, item) for i, item in enumerate(value) if isinstance(item, str)] if isinstance(value, list) else []


def has_name(value: object, names: Collection[Any]) -> bool:
    """Whether a value is one of these names."""
    return isinstance(value, str) and value in names


FieldPath = tuple[str | int, ...]
Broken = tuple[FieldPath, str]
"""Where a rule is broken, below the object it belongs to, and what to do."""


def one_kind(system: object) -> Iterator[Broken]:
    """A system is exactly one of its kinds."""
    kinds = [kind for kind in ("kafka", "log", "generator") if kind in fields_of(system)]
    if len(kinds) != 1:
        kinds_text = " and ".join(kinds) if kinds else "none"
        yield (), f"a system is exactly one of kafka, log, generator; found {kinds_text}"


def one_verb(step: object) -> Iterator[Broken]:
    """A step has exactly one verb."""
    verbs = [verb for verb in VERBS if verb in fields_of(step)]
    if len(verbs) != 1:
        verbs_text = " and ".join(verbs) if verbs else "none"
        hint = "" if verbs else "; a verb without settings is written merge: {}"
        yield (), f"a step has exactly one verb; found {verbs_text} (verbs: {', '.join(VERBS)}{hint})"


def arity(step: object) -> Iterator[Broken]:
    """A join reads two inputs, a merge any number, every other step one."""
    fields = fields_of(step)
    inputs = fields.get("from")
    if not isinstance(inputs, list) or not inputs:
        return
    if "join" in fields:
        if len(inputs) != 2:  # noqa: PLR2004 - left and right
            yield ("from",), f"join reads exactly two inputs, left and right; found {len(inputs)}"
    elif "merge" not in fields and len(inputs) != 1:
        yield (
            ("from",),
            f"only join and merge read several inputs; put a merge step before this one (found {len(inputs)})",
        )


def join_span(join: object) -> Iterator[Broken]:
    """How far apart rows of a join may be is said once, for both sides or for each."""
    fields = fields_of(join)
    sides = [field for field in ("before", "after") if field in fields]
    if "within" in fields and sides:
        yield (sides[0],), f"within is for both directions; leave it out, or {' and '.join(sides)}"
    if "within" not in fields and not sides:
        yield (), "say how far apart the event times of two rows may be, e.g. within: 10m, or after: 1h"


def one_time(event_time: object) -> Iterator[Broken]:
    """Event time is a column, or is computed."""
    fields = fields_of(event_time)
    if "column" in fields and "from" in fields:
        yield ("from",), "column and from exclude each other: column names a TIMESTAMP, from is anything else"
    if "column" not in fields and "from" not in fields:
        yield (), "say which TIMESTAMP column has the time, e.g. column: ts, or what else, e.g. from: payload.ts"
    if "unit" in fields and "from" not in fields:
        yield ("unit",), "unit is for numbers, and column names a TIMESTAMP; name the number in from"


def time_set(step: object) -> Iterator[Broken]:
    """Only some verbs can give rows another event time."""
    fields = fields_of(step)
    if "eventTime" in fields and not any(verb in fields for verb in TIME_SETTING_VERBS):
        yield ("eventTime",), f"eventTime is for {', '.join(TIME_SETTING_VERBS)}; put a select step behind this one"


def windows(aggregate: object) -> Iterator[Broken]:
    """Windows, slides and sessions fit together."""
    window, slide, session = (fields_of(aggregate).get(field) for field in ("window", "slide", "session"))
    if window is not None and session is not None:
        yield ("session",), "window and session exclude each other"
    if slide is not None and window is None:
        yield ("slide",), "slide needs window"
    if _is_longer(slide, window):
        yield ("slide",), f"slide {slide} is longer than window {window}, so rows between windows would be lost"


def session_updates(aggregate: object) -> Iterator[Broken]:
    """A session comes out when it is over."""
    fields = fields_of(aggregate)
    if "session" in fields and fields.get("emit") == "Update":
        yield (
            ("emit",),
            "the bounds of a session change with its rows, so no update could replace another; leave it out",
        )


def _is_longer(first: object, second: object) -> bool:
    """Whether both are durations, and the first is longer."""
    # A file may hold any text here, even numbers that Python refuses to read.
    return is_duration(first) and is_duration(second) and millis(str(first)) > millis(str(second))


def table_feed(table: object) -> Iterator[Broken]:
    """What a table declares fits how it is fed."""
    fields = fields_of(table)
    if "sources" in fields:
        if "schema" in fields:
            yield ("schema",), "a table with sources has the columns of its sources; leave schema out"
        return
    if "files" in fields:
        return
    if fields.get("distribution") == "Broadcast":
        yield ("distribution",), "a Broadcast table is fed by side inputs or files: name them in sources or files"
    if fields.get("versioned") is True:
        yield ("versioned",), "a versioned table is fed by a side input or files: name them in sources or files"
    if "select" in fields:
        yield ("select",), "select projects what sources bring; a table written by toTable steps takes rows as they are"


def table_files(table: object) -> Iterator[Broken]:
    """A table with files is one that each location holds and that is replaced as a whole."""
    fields = fields_of(table)
    if "files" not in fields:
        return
    if "sources" in fields:
        yield ("files",), "a table has sources or files, not both"
    if fields.get("distribution") != "Broadcast":
        yield ("files",), "files feed Broadcast tables only: add distribution: Broadcast"
    if fields.get("versioned") is not True:
        yield ("files",), "files are replaced as a whole: add versioned: true"
    if "schema" not in fields:
        yield ("files",), "files need a schema, with the columns to read: add schema"
    if "maxAge" in fields:
        yield ("maxAge",), "files are loaded again when they change, whatever their age; leave maxAge out"
    if fields.get("persistent") is False:
        yield ("persistent",), "a data set of files is kept until the next one is whole; leave persistent out"


SCHEMA_FIELDS = {"avro": "avro", "jsonSchema": "json-schema", "protobuf": "protobuf"}
"""The field that says which schema records have, and the format that it goes with."""


def record_schema(stream: object) -> Iterator[Broken]:
    """Only records of a format with schemas have one, and that is of their format."""
    fields = fields_of(stream)
    for field, name in SCHEMA_FIELDS.items():
        if field in fields and fields.get("format") != name:
            message = f"{field} says which schema records have with format: {name}; set that, or leave {field} out"
            yield (field,), message


_NOT_WITH_CHANGES = {
    "metadata": "a table has the rows of the database, which have no metadata of records",
    "partitioner": "Debezium places records by keys in its own form",
    "eventTime": "the rows of a table have no event time",
}


def changes(stream: object) -> Iterator[Broken]:
    """Changes of a database have a primary key, are JSON or Avro, and are nothing else."""
    fields = fields_of(stream)
    if "changes" not in fields:
        return
    if "key" not in fields:
        yield ("changes",), "changes needs the columns of the primary key: set key"
    if fields.get("format", "json") not in ("json", "avro"):
        yield ("format",), "Debezium writes changes as JSON or Avro: set format to json or avro"
    for field, why in _NOT_WITH_CHANGES.items():
        if field in fields:
            yield (field,), f"{why}; leave {field} out, or changes"
    for field in ("bounded", "control"):
        if fields.get(field) is True:
            yield (field,), f"changes of a database feed tables, which {field} says nothing of; leave it out"
    for field in ("schema", "register"):
        if field in fields_of(fields.get("avro")):
            yield ("avro", field), f"the registry has the schemas of changes; leave {field} out"


def dead_letter(stream: object) -> Iterator[Broken]:
    """A dead letter stream is named where, and only where, it is used."""
    fields = fields_of(stream)
    wants = [field for field in ("onDecodeError", "onUnwritable") if fields.get(field) == "DeadLetter"]
    if wants and "deadLetter" not in fields:
        yield (wants[0],), "DeadLetter needs a stream to write to: set deadLetter"
    if not wants and "deadLetter" in fields:
        yield ("deadLetter",), "deadLetter is used only with onDecodeError: DeadLetter or onUnwritable: DeadLetter"
    if "deadLetter" in fields and fields["deadLetter"] == fields.get("name"):
        yield ("deadLetter",), "a stream can't be its own dead letter stream"


def step_dead_letter(step: object) -> Iterator[Broken]:
    """A step that puts rows aside says where they go; one that can't put rows aside says nothing."""
    fields = fields_of(step)
    if "onError" in fields and not any(verb in fields for verb in FAILING_VERBS):
        yield ("onError",), f"only steps with {', '.join(FAILING_VERBS)} can fail on a row; leave onError out"
    if "late" in fields and not any(verb in fields for verb in LATE_VERBS):
        yield ("late",), f"only rows of {', '.join(LATE_VERBS)} can be late; leave late out"
    wants = [field for field in ("onError", "late") if fields.get(field) == "DeadLetter"]
    if wants and "deadLetter" not in fields:
        yield (wants[0],), "DeadLetter needs a stream to write to: set deadLetter"
    if not wants and "deadLetter" in fields:
        yield ("deadLetter",), "deadLetter is used only with onError: DeadLetter or late: DeadLetter"


def was_kept(step: object) -> Iterator[Broken]:
    """A former name is for steps that keep state."""
    fields = fields_of(step)
    if "was" in fields and not any(verb in fields for verb in KEYED_VERBS):
        yield ("was",), f"was is the name under which state is kept, for {', '.join(KEYED_VERBS)}; leave it out here"


_SECRET_WORDS = ("password", "secret", "key.pem", "jaas")


def no_secrets(kafka: object) -> Iterator[Broken]:
    """No secret stands in a StreamApp."""
    for key in fields_of(fields_of(kafka).get("config")):
        if isinstance(key, str) and any(word in key for word in _SECRET_WORDS):
            yield (
                ("config", key),
                "a secret does not belong in a StreamApp: put this setting into the Secret secretName",
            )


def backoff_order(backoff: object) -> Iterator[Broken]:
    """The first wait is not longer than the longest."""
    initial, most = fields_of(backoff).get("initial", "5s"), fields_of(backoff).get("max", "5m")
    if _is_longer(initial, most):
        field = "initial" if "initial" in fields_of(backoff) else "max"
        yield (field,), f"the first wait {initial} is longer than the longest, {most}"


def claims(state: object) -> Iterator[Broken]:
    """Only claims have a storage class."""
    fields = fields_of(state)
    if "storageClass" in fields and fields.get("location", "Claim") != "Claim":
        yield ("storageClass",), "storageClass is used only with location: Claim"


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
