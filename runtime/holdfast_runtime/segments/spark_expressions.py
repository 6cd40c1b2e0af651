"""Expressions that only Spark SQL computes, as users wrote them: each makes every batch of its app a Spark job.

Steps and tables are taken apart before they are compiled. An item of such a part leads back to the text that it comes
from. Must not compile anything.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.planning.aggregation import split_compute
from holdfast.planning.problems import excerpt
from holdfast.planning.sql.items import named_item, quoted
from holdfast.planning.sql.plain.reading import plain_filter, plain_select
from holdfast.spec.steps import Aggregate, Join, Lookup, Step
from holdfast_runtime.segments.graph import GraphNode
from holdfast_runtime.steps.plain.plain_sql import plain_kinds


@dataclass(frozen=True, slots=True)
class SparkExpression:
    """One of them."""

    owner: str
    """The step or table that has it: `step shown`, `table places`."""
    field: str
    """The verb of the step; `select` of a table."""
    text: str

    def __str__(self) -> str:
        return f'{self.owner}, {self.field}: "{excerpt(self.text)}"'


@dataclass(frozen=True, slots=True)
class WrittenTexts:
    """What a user wrote in a step or a table."""

    owner: str
    field: str
    by_part: tuple[tuple[str, str], ...] = ()
    """How an item that comes from a text begins or ends, and the text; none where items are what the user wrote."""

    @classmethod
    def of_compute(cls, step: Step, verb: Aggregate, columns: Sequence[str]) -> "WrittenTexts":
        """Return those of an `aggregate` over rows with these columns."""
        arguments = tuple(
            (item.rpartition(" AS ")[0], text)
            for text in verb.compute
            for item in split_compute(verb.model_copy(update={"compute": (text,)}), columns).before
            if " AS " in item
        )
        return cls(f"step {step.name}", "aggregate", (*arguments, *_by_name(verb.compute)))

    @classmethod
    def of_select(cls, step: Step, verb: Join | Lookup) -> "WrittenTexts":
        """Return those of a `join` or `lookup`."""
        return cls(f"step {step.name}", step.verb, tuple(_by_name(verb.select or ())))

    def behind(self, items: Sequence[str]) -> Iterator[SparkExpression]:
        """Yield the expressions from which these items come."""
        for item in items:
            texts = [
                text for part, text in self.by_part if item.startswith(f"{part} AS ") or item.endswith(f" AS {part}")
            ]
            for text in texts or [item]:
                yield SparkExpression(self.owner, self.field, text)


def _by_name(items: Sequence[str]) -> Iterator[tuple[str, str]]:
    return ((quoted(named_item(item)[0]), item) for item in items)


def beyond_plain(step: Step, source: GraphNode) -> Sequence[str]:
    """Return what of a `filter` or `select` that runs in Spark SQL over these rows is not plain."""
    kinds = plain_kinds(source.schema)
    if step.filter is not None:
        return () if plain_filter(step.filter, kinds) else (step.filter,)
    items = step.select or ()
    beyond = [item for item in items if plain_select((item,), kinds) is None]
    # Rows in the JVM stay there for a plain select; rows in Python leave it for one thing or another.
    return beyond if beyond or source.level % 2 else items
