"""What rules over one object of a spec find: a system, a stream, a step, a table.

`rules` lists them beside their CEL; those over several objects are in `name_checks`. Each function yields where its
rule is broken, below the object, and what to do. Rules must find their errors whatever else is wrong: they see the
object as read, what has the wrong shape looks empty because the model reports it, and nothing here raises.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any

from holdfast.spec.values import is_duration, millis
from holdfast.spec.verbs import FAILING_VERBS, KEYED_VERBS, LATE_VERBS, TIME_SETTING_VERBS, VERBS


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


def checkpoint_place(checkpoint: object) -> Iterator[Broken]:
    """A checkpoint is somewhere."""
    if not fields_of(checkpoint).keys() & {"location", "claim"}:
        yield (), "a checkpoint has location, e.g. s3a://bucket/path, or claim, a volume claim that all pods can mount"


def claim_path(checkpoint: object) -> Iterator[Broken]:
    """A claim is mounted at a path."""
    fields = fields_of(checkpoint)
    location = fields.get("location")
    if "claim" in fields and isinstance(location, str) and not location.startswith("file:///"):
        repair = "leave out the location, write file:///path, or leave out the claim"
        yield ("location",), f"there is a claim, which is mounted at a path: {repair}"


RESERVED_VARIABLES = ("HOLDFAST_", "SPARK_")
"""How names of variables begin that Holdfast and Spark set themselves."""
CONFIDENTIAL_NAMES = "(PASSWORD|PASSWD|SECRET|SECRET_KEY|SECRET_ACCESS_KEY|TOKEN|API_KEY)$"
"""How names of variables end whose values are secrets."""
VARIABLE_SOURCES = ("secretKeyRef", "configMapKeyRef", "fieldRef")


def variable(tree: object) -> Iterator[Broken]:
    """A variable has a name of the user's, and one value, which is no secret."""
    fields = fields_of(tree)
    name, source = fields.get("name"), fields.get("valueFrom")
    if isinstance(name, str) and name.startswith(RESERVED_VARIABLES):
        yield ("name",), "Holdfast or Spark sets this variable itself: take another name"
    if "value" in fields and source is not None:
        yield ("valueFrom",), "value and valueFrom exclude each other"
    if isinstance(source, dict):
        sources = [field for field in VARIABLE_SOURCES if field in fields_of(source)]
        if len(sources) != 1:
            sources_text = " and ".join(sources) if sources else "none"
            yield ("valueFrom",), f"valueFrom has exactly one of {', '.join(VARIABLE_SOURCES)}; found {sources_text}"
    if fields.get("value") and isinstance(name, str) and re.search(CONFIDENTIAL_NAMES, name):
        repair = "put it into a Secret, and name that in valueFrom.secretKeyRef"
        yield ("name",), f"a secret does not belong in a StreamApp: {repair}"


def toleration(tree: object) -> Iterator[Broken]:
    """A toleration is one that the API server takes."""
    fields = fields_of(tree)
    exists = fields.get("operator") == "Exists"
    if exists and fields.get("value"):
        yield ("value",), "Exists tolerates any value: leave value out"
    if not exists and not fields.get("key"):
        yield (), "without a key any taint is tolerated, which is operator: Exists"
    if "tolerationSeconds" in fields and fields.get("effect") != "NoExecute":
        yield ("tolerationSeconds",), "tolerationSeconds is for effect: NoExecute"


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


def apply_calls(apply: object) -> Iterator[Broken]:
    """How a call may end is said of calls for each row alone."""
    fields = fields_of(apply)
    for field in ("timeout", "retries"):
        if field in fields and "concurrency" not in fields:
            yield (
                (field,),
                f"{field} is for calls row by row: add concurrency, e.g. concurrency: 64, or leave {field} out",
            )


def process_form(process: object) -> Iterator[Broken]:
    """State has declared columns where batches of it are read, and only there."""
    fields = fields_of(process)
    if fields.get("form") == "Batch":
        if "state" not in fields:
            yield (), 'form: Batch needs the columns of the state, e.g. state: "total BIGINT"'
    elif "state" in fields:
        yield ("state",), "state is for form: Batch; a function of single keys has a dict, without declared columns"


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


FORMAT_FIELDS = {"avro": "avro", "jsonSchema": "json-schema", "protobuf": "protobuf", "csv": "csv"}
"""The field that says more of records, as which schema they have, and the format that it goes with."""


def record_format(stream: object) -> Iterator[Broken]:
    """What says more of records goes with their format."""
    fields = fields_of(stream)
    for field, name in FORMAT_FIELDS.items():
        if field in fields and fields.get("format") != name:
            message = f"{field} says more of records of format: {name}; set that, or leave {field} out"
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
