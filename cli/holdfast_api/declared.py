"""What calls declare: systems, streams, tables and steps, and the verbs by which rows go from one step to the next.

Each verb is a method that writes a step into the draft. Its options are generated from the spec. A step under whose
name something is kept must be given one; the others may go without, and are called by what they read and do. Must not
judge whether a verb fits its input.
"""

from collections.abc import Callable, Mapping
from typing import Any, Unpack

from holdfast.spec.steps import Step
from holdfast.spec.streams import Stream
from holdfast.spec.verbs import Verb
from holdfast_api.draft import AppDraftError, Declared
from holdfast_api.options import (
    AggregateOptions,
    ApplyOptions,
    BroadcastOptions,
    DeduplicateOptions,
    FilterOptions,
    JoinOptions,
    LookupOptions,
    MergeOptions,
    ProcessOptions,
    RepartitionOptions,
    SelectOptions,
    StreamOptions,
    ToOptions,
    ToTableOptions,
)
from holdfast_api.spec_names import fields_beside_verbs, name_is_needed, verb_model

PythonFunction = Callable[..., Any] | str
"""A function itself, or its path, `module:function`."""


class DeclaredTable(Declared):
    """A table, which steps look rows up in or write."""


class RowSource(Declared):
    """A stream or a step, whose rows steps read."""

    def filter(self, condition: str, **options: Unpack[FilterOptions]) -> "DeclaredStep":
        """Keep rows for which this Spark SQL condition is true."""
        return self._step("filter", condition, options)

    def select(self, *columns: str, **options: Unpack[SelectOptions]) -> "DeclaredStep":
        """Compute columns: Spark SQL expressions, named with AS."""
        return self._step("select", list(columns), options)

    def merge(self, *more: "RowSource", **options: Unpack[MergeOptions]) -> "DeclaredStep":
        """Put the rows of several inputs together."""
        return self._step("merge", {}, options, *more)

    def apply(self, function: PythonFunction, **options: Unpack[ApplyOptions]) -> "DeclaredStep":
        """Call a Python function over Arrow batches, without state."""
        return self._step("apply", {"function": self.draft.path_of(function)}, options)

    def process(self, function: PythonFunction, **options: Unpack[ProcessOptions]) -> "DeclaredStep":
        """Call a Python function with state for each key."""
        return self._step("process", {"function": self.draft.path_of(function)}, options)

    def deduplicate(self, **options: Unpack[DeduplicateOptions]) -> "DeclaredStep":
        """Drop rows seen before."""
        return self._step("deduplicate", {}, options)

    def aggregate(self, **options: Unpack[AggregateOptions]) -> "DeclaredStep":
        """Compute values over rows of a key."""
        return self._step("aggregate", {}, options)

    def join(self, right: "RowSource", **options: Unpack[JoinOptions]) -> "DeclaredStep":
        """Match these rows, which are the left ones, with those of another stream or step."""
        return self._step("join", {}, options, right)

    def lookup(self, table: DeclaredTable | str, **options: Unpack[LookupOptions]) -> "DeclaredStep":
        """Match rows with a table."""
        return self._step("lookup", {"table": self.draft.name_of(table)}, options)

    def repartition(self, **options: Unpack[RepartitionOptions]) -> "DeclaredStep":
        """Move rows to the tasks of other keys, through an intermediate stream."""
        return self._step("repartition", {}, options)

    def broadcast(self, **options: Unpack[BroadcastOptions]) -> "DeclaredStep":
        """Send rows to every task, through an intermediate stream."""
        return self._step("broadcast", {}, options)

    def to(self, stream: "DeclaredStream | str", **options: Unpack[ToOptions]) -> "DeclaredStep":
        """Write rows to a stream, and pass them on."""
        return self._step("to", self.draft.name_of(stream), options)

    def to_table(self, table: DeclaredTable | str, **options: Unpack[ToTableOptions]) -> "DeclaredStep":
        """Write rows to a table, and pass them on."""
        return self._step("toTable", self.draft.name_of(table), options)

    def _step(self, verb: Verb, settings: Any, options: Mapping[str, Any], *more: "RowSource") -> "DeclaredStep":
        beside = fields_beside_verbs()
        step = {name: option for name, option in options.items() if name in beside}
        below = {name: option for name, option in options.items() if name not in beside and name != "name"}
        model = verb_model(verb)
        if model is not None:
            settings = {**settings, **self.draft.written_fields(model, below)}
        elif below:
            message = f"{verb} has no option {', '.join(below)}"
            raise AppDraftError(message)
        name = str(options.get("name") or self._derived_name(verb, settings))
        inputs = [self.draft.name_of(source) for source in (self, *more)]
        written = {"name": name, "from": inputs, verb: settings, **self.draft.written_fields(Step, step)}
        self.draft.add("steps", written)
        return DeclaredStep(name, self.draft)

    def _derived_name(self, verb: Verb, settings: Any) -> str:
        if name_is_needed(verb):
            message = f"{verb} needs name=...: what it keeps belongs to that name, which must stay when steps change"
            raise AppDraftError(message)
        goal = {"to": lambda: [settings], "lookup": lambda: [settings["table"]]}.get(verb, list)()
        return self.draft.derived_name(self.name, verb, *goal)


class DeclaredStream(RowSource):
    """A stream."""


class DeclaredStep(RowSource):
    """A step, whose rows are those that it puts out."""


class DeclaredSystem(Declared):
    """A place that holds streams."""

    def stream(self, name: str, **options: Unpack[StreamOptions]) -> DeclaredStream:
        """Declare a stream that is read or written."""
        fields = self.draft.written_fields(Stream, options)
        self.draft.add("streams", {"name": name, "system": self.name, **fields})
        return DeclaredStream(name, self.draft)
