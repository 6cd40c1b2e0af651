"""The rules over several objects of a spec: names that are unique, resolve, and go together (`name_checks`)."""

from holdfast.spec import name_checks
from holdfast.spec.cel import Offenders, former_names, known_names, names_of, with_names
from holdfast.spec.rule import Rule
from holdfast.spec.verbs import STATEFUL_VERBS

_SIDE_INPUT = "self.tables.exists(table, has(table.sources) && each.name in table.sources)"
_FED = "has(each.sources) || has(each.files)"
_TABLES = {"tables": f"(has(self.tables) ? {names_of('tables')} : {{}})"}
_GENERATED = known_names("systems", only="has(each.generator)") | known_names("streams", only="each.system in systems")

NAME_RULES: tuple[Rule, ...] = (
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
