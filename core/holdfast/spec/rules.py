"""The list of rules a StreamApp must satisfy beyond the type of each field; the list is the specification.

Each rule is written twice, side by side: as CEL for the API server and as a function for files, so that both give
one verdict. Must not look at anything but the one object.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from holdfast.spec import name_checks, rule_checks
from holdfast.spec.cel import Offenders, exactly_one, former_names, known_names, names_of, one_of, with_names
from holdfast.spec.rule_checks import Broken, FieldPath
from holdfast.spec.verbs import FAILING_VERBS, KEYED_VERBS, LATE_VERBS, STATEFUL_VERBS, TIME_SETTING_VERBS, VERBS


@dataclass(frozen=True, slots=True)
class Rule:
    """One sentence over one kind of object."""

    at: FieldPath
    """Fields from `spec` down to the object; `*` stands for each item of a list."""
    message: str
    """The sentence, as the API server prints it."""
    cel: str | None
    """The rule for the API server; None where its schema says it already (unique names)."""
    broken: Callable[[object], Iterator[Broken]]
    """The rule for files."""
    offenders: tuple[Offenders, ...] = ()
    """For a rule over the whole spec: what the API server adds to the sentence, the first of these that there are."""


_SIDE_INPUT = "self.tables.exists(table, has(table.sources) && each.name in table.sources)"
_FED = "has(each.sources) || has(each.files)"
_TABLES = {"tables": f"(has(self.tables) ? {names_of('tables')} : {{}})"}
_GENERATED = known_names("systems", only="has(each.generator)") | known_names("streams", only="each.system in systems")


RULES: tuple[Rule, ...] = (
    Rule(
        at=("systems", "*"),
        message="a system is exactly one of kafka, log, generator",
        cel=exactly_one(("kafka", "log", "generator")),
        broken=rule_checks.one_kind,
    ),
    Rule(
        at=("systems", "*", "kafka"),
        message="a secret does not belong in a StreamApp: put it into the Secret secretName",
        cel="!has(self.config) || self.config.all(key, !key.matches('password|secret|key[.]pem|jaas'))",
        broken=rule_checks.no_secrets,
    ),
    Rule(
        at=("streams", "*"),
        message="deadLetter names another stream, and goes with onDecodeError or onUnwritable: DeadLetter",
        cel="has(self.deadLetter) == ((has(self.onDecodeError) && self.onDecodeError == 'DeadLetter')"
        " || (has(self.onUnwritable) && self.onUnwritable == 'DeadLetter'))"
        " && (!has(self.deadLetter) || self.deadLetter != self.name)",
        broken=rule_checks.dead_letter,
    ),
    Rule(
        at=("streams", "*"),
        message="avro goes with format: avro, jsonSchema with json-schema, protobuf with protobuf, csv with csv",
        cel=" && ".join(
            f"(!has(self.{field}) || (has(self.format) && self.format == '{name}'))"
            for field, name in rule_checks.FORMAT_FIELDS.items()
        ),
        broken=rule_checks.record_format,
    ),
    Rule(
        at=("streams", "*"),
        message="changes goes with key and format json or avro, without metadata, partitioner, eventTime, bounded, "
        "control, avro.schema and avro.register",
        cel="!has(self.changes) || (has(self.key) && (!has(self.format) || self.format in ['json', 'avro'])"
        " && !has(self.metadata) && !has(self.partitioner) && !has(self.eventTime)"
        " && !(has(self.bounded) && self.bounded) && !(has(self.control) && self.control)"
        " && (!has(self.avro) || (!has(self.avro.schema) && !has(self.avro.register))))",
        broken=rule_checks.changes,
    ),
    *(
        Rule(
            at=(items, "*", "eventTime"),
            message="eventTime has column or from, and unit only with from",
            cel="has(self.column) != has(self.from) && (!has(self.unit) || has(self.from))",
            broken=rule_checks.one_time,
        )
        for items in ("streams", "steps")
    ),
    Rule(
        at=("tables", "*"),
        message="without sources or files a table can't be Broadcast or versioned and has no select; with sources it "
        "has no schema",
        cel="has(self.sources) ? !has(self.schema) : has(self.files) || (!has(self.select)"
        " && !(has(self.versioned) && self.versioned)"
        " && !(has(self.distribution) && self.distribution == 'Broadcast'))",
        broken=rule_checks.table_feed,
    ),
    Rule(
        at=("tables", "*"),
        message="a table with files has distribution: Broadcast, versioned: true and a schema, and neither sources, "
        "maxAge nor persistent: false",
        cel="!has(self.files) || (has(self.distribution) && self.distribution == 'Broadcast' && has(self.versioned)"
        " && self.versioned && has(self.schema) && !has(self.sources) && !has(self.maxAge)"
        " && !(has(self.persistent) && !self.persistent))",
        broken=rule_checks.table_files,
    ),
    Rule(
        at=("steps", "*"),
        message="a step has exactly one verb",
        cel=exactly_one(tuple(VERBS)),
        broken=rule_checks.one_verb,
    ),
    Rule(
        at=("steps", "*"),
        message="onError is for filter, select, apply, process and aggregate, late for aggregate, deduplicate and "
        "join; deadLetter goes with onError or late: DeadLetter",
        cel="has(self.deadLetter) == ((has(self.onError) && self.onError == 'DeadLetter')"
        " || (has(self.late) && self.late == 'DeadLetter'))"
        f" && (!has(self.onError) || {one_of(FAILING_VERBS)}) && (!has(self.late) || {one_of(LATE_VERBS)})",
        broken=rule_checks.step_dead_letter,
    ),
    Rule(
        at=("steps", "*"),
        message="eventTime is for select, apply and process",
        cel=f"!has(self.eventTime) || {one_of(TIME_SETTING_VERBS)}",
        broken=rule_checks.time_set,
    ),
    Rule(
        at=("steps", "*", "apply"),
        message="timeout and retries go with concurrency",
        cel="has(self.concurrency) || (!has(self.timeout) && !has(self.retries))",
        broken=rule_checks.apply_calls,
    ),
    Rule(
        at=("steps", "*", "process"),
        message="state goes with form: Batch",
        cel="has(self.state) == (has(self.form) && self.form == 'Batch')",
        broken=rule_checks.process_form,
    ),
    Rule(
        at=("steps", "*", "join"),
        message="a join has within, or before, after or both",
        cel="has(self.within) != (has(self.before) || has(self.after))",
        broken=rule_checks.join_span,
    ),
    Rule(
        at=("steps", "*"),
        message="join reads two inputs, merge any number, every other step one",
        cel="has(self.join) ? self.from.size() == 2 : (has(self.merge) || self.from.size() == 1)",
        broken=rule_checks.arity,
    ),
    Rule(
        at=("steps", "*"),
        message="was is for steps that keep state",
        cel=f"!has(self.was) || {one_of(KEYED_VERBS)}",
        broken=rule_checks.was_kept,
    ),
    Rule(
        at=("steps", "*", "aggregate"),
        message="window and session exclude each other; slide needs window and is at most as long",
        cel="!(has(self.window) && has(self.session)) && (!has(self.slide) || (has(self.window)"
        " && duration(self.slide) <= duration(self.window)))",
        broken=rule_checks.windows,
    ),
    Rule(
        at=("steps", "*", "aggregate"),
        message="a session has no emit: Update, since its bounds change",
        cel="!(has(self.session) && has(self.emit) && self.emit == 'Update')",
        broken=rule_checks.session_updates,
    ),
    Rule(
        at=("restart", "backoff"),
        message="initial is at most max",
        cel="duration(has(self.initial) ? self.initial : '5s') <= duration(has(self.max) ? self.max : '5m')",
        broken=rule_checks.backoff_order,
    ),
    Rule(
        at=("runtime", "checkpoint"),
        message="a checkpoint has location or claim",
        cel="has(self.location) || has(self.claim)",
        broken=rule_checks.checkpoint_place,
    ),
    Rule(
        at=("runtime", "checkpoint"),
        message="with a claim, the location of a checkpoint is file:///path",
        cel="!has(self.claim) || !has(self.location) || self.location.startsWith('file:///')",
        broken=rule_checks.claim_path,
    ),
    *(
        rule
        for part in ("driver", "executors")
        for rule in (
            Rule(
                at=("runtime", part, "env", "*"),
                message="a variable has a name that is not Holdfast's or Spark's, and value or valueFrom, which is one "
                "of secretKeyRef, configMapKeyRef and fieldRef; secrets come from a Secret",
                cel=" && ".join(f"!self.name.startsWith('{prefix}')" for prefix in rule_checks.RESERVED_VARIABLES)
                + " && !(has(self.value) && has(self.valueFrom))"
                f" && (!has(self.value) || self.value == '' || !self.name.matches('{rule_checks.CONFIDENTIAL_NAMES}'))"
                " && (!has(self.valueFrom) || "
                f"{exactly_one(tuple(f'valueFrom.{source}' for source in rule_checks.VARIABLE_SOURCES))})",
                broken=rule_checks.variable,
            ),
            Rule(
                at=("runtime", part, "tolerations", "*"),
                message="a toleration has a key, or operator: Exists, which has no value; and tolerationSeconds only "
                "with effect: NoExecute",
                cel="(has(self.operator) && self.operator == 'Exists' ? !has(self.value) || self.value == ''"
                " : has(self.key) && self.key != '')"
                " && (!has(self.tolerationSeconds) || (has(self.effect) && self.effect == 'NoExecute'))",
                broken=rule_checks.toleration,
            ),
            Rule(
                at=("runtime", part),
                message="names of variables are unique",
                cel=None,
                broken=name_checks.unique("env"),
            ),
        )
    ),
    Rule(
        at=("state",),
        message="storageClass is used only with location: Claim",
        cel="!has(self.storageClass) || !has(self.location) || self.location == 'Claim'",
        broken=rule_checks.claims,
    ),
    Rule(at=(), message="system names are unique", cel=None, broken=name_checks.unique("systems")),
    Rule(at=(), message="stream names are unique", cel=None, broken=name_checks.unique("streams")),
    Rule(at=(), message="table names are unique", cel=None, broken=name_checks.unique("tables")),
    Rule(at=(), message="step names are unique", cel=None, broken=name_checks.unique("steps")),
    Rule(
        at=(),
        message="streams and steps share one space of names",
        cel=with_names("streams", "!self.steps.exists(step, step.name in streams)"),
        broken=name_checks.streams_apart_from_steps,
        offenders=(Offenders("steps", "item.name in streams", "'a stream is called so'", known_names("streams")),),
    ),
    Rule(
        at=(),
        message="streams name systems that exist",
        cel=with_names("systems", "self.streams.all(stream, stream.system in systems)"),
        broken=name_checks.known_systems,
        offenders=(Offenders("streams", "!(item.system in systems)", "item.system", known_names("systems")),),
    ),
    Rule(
        at=(),
        message="a changelog is in a Kafka system that exists",
        cel=with_names(
            "systems",
            "!has(self.runtime) || !has(self.runtime.checkpoint) || !has(self.runtime.checkpoint.changelog)"
            " || self.runtime.checkpoint.changelog.system in systems",
            only="has(each.kafka)",
        ),
        broken=name_checks.changelog_in_kafka,
        offenders=(Offenders("systems", "true", "has(item.kafka) ? 'a Kafka system' : 'no Kafka system'"),),
    ),
    Rule(
        at=(),
        message="retention is for streams of a Kafka system",
        cel=with_names(
            "systems",
            "!self.streams.exists(stream, has(stream.retention) && stream.system in systems)",
            only="!has(each.kafka)",
        ),
        broken=name_checks.retention_in_kafka,
        offenders=(
            Offenders(
                "streams",
                "has(item.retention) && item.system in systems",
                "item.system",
                known_names("systems", only="!has(each.kafka)"),
            ),
        ),
    ),
    Rule(
        at=(),
        message="steps read streams or steps that exist",
        cel=with_names(
            "streams",
            with_names("steps", "self.steps.all(step, step.from.all(name, name in streams || name in steps))"),
        ),
        broken=name_checks.known_inputs,
        offenders=(
            Offenders(
                "steps",
                "item.from.exists(name, !(name in streams) && !(name in steps))",
                "item.from",
                known_names("streams", "steps"),
            ),
        ),
    ),
    Rule(
        at=(),
        message="to names a stream that exists",
        cel=with_names("streams", "self.steps.all(step, !has(step.to) || step.to in streams)"),
        broken=name_checks.known_targets,
        offenders=(Offenders("steps", "has(item.to) && !(item.to in streams)", "item.to", known_names("streams")),),
    ),
    Rule(
        at=(),
        message="toTable, lookup and process name tables that exist",
        cel="has(self.tables) ? "
        + with_names(
            "tables",
            "self.steps.all(step, (!has(step.toTable) || step.toTable in tables)"
            " && (!has(step.lookup) || step.lookup.table in tables)"
            " && (!has(step.process) || !has(step.process.tables)"
            " || step.process.tables.all(name, name in tables)))",
        )
        + " : !self.steps.exists(step, has(step.toTable) || has(step.lookup)"
        " || (has(step.process) && has(step.process.tables)))",
        broken=name_checks.known_tables,
        offenders=(
            Offenders(
                "steps",
                "has(item.toTable) ? !(item.toTable in tables) : has(item.lookup) && !(item.lookup.table in tables)",
                "has(item.toTable) ? item.toTable : item.lookup.table",
                _TABLES,
            ),
            Offenders(
                "steps",
                "has(item.process) && has(item.process.tables) && item.process.tables.exists(name, !(name in tables))",
                "item.process.tables",
                _TABLES,
            ),
        ),
    ),
    Rule(
        at=(),
        message="sources name streams that exist",
        cel="!has(self.tables) || "
        + with_names(
            "streams",
            "self.tables.all(table, !has(table.sources) || table.sources.all(name, name in streams))",
        ),
        broken=name_checks.known_sources,
        offenders=(
            Offenders(
                "tables",
                "has(item.sources) && item.sources.exists(name, !(name in streams))",
                "item.sources",
                known_names("streams"),
            ),
        ),
    ),
    Rule(
        at=(),
        message="deadLetter names a stream that exists",
        cel=with_names(
            "streams",
            "self.streams.all(stream, !has(stream.deadLetter) || stream.deadLetter in streams)"
            " && self.steps.all(step, !has(step.deadLetter) || step.deadLetter in streams)",
        ),
        broken=name_checks.known_dead_letters,
        offenders=tuple(
            Offenders(
                items,
                "has(item.deadLetter) && !(item.deadLetter in streams)",
                "item.deadLetter",
                known_names("streams"),
            )
            for items in ("streams", "steps")
        ),
    ),
    Rule(
        at=(),
        message="a side input is not read or written by steps, and takes no dead letters",
        cel="!has(self.tables) || "
        + with_names(
            "streams",
            "!self.steps.exists(step, step.from.exists(name, name in streams) || (has(step.to) && step.to in streams)"
            " || (has(step.deadLetter) && step.deadLetter in streams))"
            " && !self.streams.exists(stream, has(stream.deadLetter) && stream.deadLetter in streams)",
            only=_SIDE_INPUT,
        ),
        broken=name_checks.side_inputs_apart,
        offenders=(
            Offenders(
                "steps",
                "item.from.exists(name, name in streams) || (has(item.to) && item.to in streams)"
                " || (has(item.deadLetter) && item.deadLetter in streams)",
                "'it reads or writes one'",
                known_names("streams", only=_SIDE_INPUT),
            ),
            Offenders(
                "streams",
                "has(item.deadLetter) && item.deadLetter in streams",
                "item.deadLetter",
                known_names("streams", only=_SIDE_INPUT),
            ),
        ),
    ),
    Rule(
        at=(),
        message="a table has side inputs, files or writers: one of them",
        cel="!has(self.tables) || "
        + with_names(
            "tables",
            "!self.steps.exists(step, has(step.toTable) && step.toTable in tables)",
            only=_FED,
        ),
        broken=name_checks.one_feed,
        offenders=(
            Offenders(
                "steps", "has(item.toTable) && item.toTable in tables", "item.toTable", known_names("tables", only=_FED)
            ),
        ),
    ),
    Rule(
        at=(),
        message="a stream of a generator can't be written to",
        cel=with_names(
            "systems",
            with_names(
                "streams",
                "!self.steps.exists(step, (has(step.to) && step.to in streams)"
                " || (has(step.deadLetter) && step.deadLetter in streams))"
                " && !self.streams.exists(stream, has(stream.deadLetter) && stream.deadLetter in streams)",
                only="each.system in systems",
            ),
            only="has(each.generator)",
        ),
        broken=name_checks.generators_are_read_only,
        offenders=(
            Offenders(
                "steps",
                "(has(item.to) && item.to in streams) || (has(item.deadLetter) && item.deadLetter in streams)",
                "has(item.to) ? item.to : item.deadLetter",
                _GENERATED,
            ),
            Offenders("streams", "has(item.deadLetter) && item.deadLetter in streams", "item.deadLetter", _GENERATED),
        ),
    ),
    Rule(
        at=(),
        message="the state under one name belongs to one step",
        # Two steps that were the same one are two entries of one key, which is an error of its own.
        cel=f"[{former_names('steps')}].all(former, "
        "!self.steps.exists(step, step.name in former && former[step.name] != step.name))",
        broken=name_checks.former_names,
        offenders=(
            Offenders(
                "steps",
                "item.name in former && former[item.name] != item.name",
                "former[item.name]",
                {"former": former_names("steps")},
            ),
        ),
    ),
    Rule(
        at=(),
        message="the name by which a run knows a stream belongs to one stream, and to no step",
        cel=f"[{former_names('streams')}].all(former, "
        "!self.streams.exists(stream, stream.name in former && former[stream.name] != stream.name)"
        " && !self.steps.exists(step, step.name in former))",
        broken=name_checks.former_streams,
        offenders=(
            Offenders(
                "streams",
                "item.name in former && former[item.name] != item.name",
                "former[item.name]",
                {"former": former_names("streams")},
            ),
            Offenders("steps", "item.name in former", "former[item.name]", {"former": former_names("streams")}),
        ),
    ),
    Rule(
        at=(),
        message="ByStreamPartition is for apps without state",
        cel="!has(self.grouping) || self.grouping != 'ByStreamPartition' || !self.steps.exists(step, "
        + " || ".join(f"has(step.{verb})" for verb in STATEFUL_VERBS)
        + ")",
        broken=name_checks.stateless_grouping,
        offenders=(
            Offenders("steps", " || ".join(f"has(item.{verb})" for verb in STATEFUL_VERBS), "'it keeps state'"),
        ),
    ),
)
