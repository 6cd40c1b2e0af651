"""The rules over one object of a spec: a system, a stream, a table, a step, a pod (`rule_checks`)."""

from holdfast.spec import name_checks, rule_checks
from holdfast.spec.cel import exactly_one, one_of
from holdfast.spec.rule import Rule
from holdfast.spec.verbs import FAILING_VERBS, KEYED_VERBS, LATE_VERBS, TIME_SETTING_VERBS, VERBS

OBJECT_RULES: tuple[Rule, ...] = (
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
)
