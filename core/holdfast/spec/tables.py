"""Why: the adjunct stores of an app, as a user writes them."""

from typing import Annotated, Literal

from pydantic import Field

from holdfast.spec.base import SpecModel
from holdfast.spec.fields import ChangeCost
from holdfast.spec.values import ColumnName, Ddl, Expression, Name, PositiveDuration


class Table(SpecModel):
    """Rows by key, kept beside the tasks: fed by side inputs (`sources`) or written by `toTable` steps."""

    name: Annotated[Name, ChangeCost.RESTART]
    """What `lookup` and `toTable` call it."""
    # Not more: "a side input is not read or written by steps" would exceed what a rule may cost the API server.
    sources: Annotated[tuple[Name, ...] | None, ChangeCost.NEW_RUN, Field(min_length=1, max_length=8)] = None
    """Side inputs: streams whose records are its rows. Without them `toTable` steps write it."""
    key: Annotated[tuple[ColumnName, ...], ChangeCost.NEW_RUN, Field(min_length=1, max_length=16)]
    """The columns that name a row. A later row of the same key replaces the earlier one."""
    schema_: Annotated[Ddl | None, ChangeCost.RESTART, Field(alias="schema")] = None
    """Its columns as Spark DDL, where the rows written to it are derived from look-ups in itself."""
    select: Annotated[tuple[Expression, ...] | None, ChangeCost.NEW_RUN, Field(min_length=1, max_length=200)] = None
    """Spark SQL expressions: what of a source's row is kept. Default: all of it."""
    distribution: Annotated[Literal["Partitioned", "Broadcast"], ChangeCost.NEW_RUN] = "Partitioned"
    """Partitioned: each task holds the rows of its keys. Broadcast: one whole copy per location.
    Default: Partitioned."""
    bootstrap: Annotated[bool, ChangeCost.RESTART] = True
    """True: main inputs wait until the table is loaded. Default: true."""
    persistent: Annotated[bool, ChangeCost.RESTART] = True
    """True: kept on disk across restarts. False: in memory. Default: true."""
    max_age: Annotated[PositiveDuration | None, ChangeCost.RESTART] = None
    """A local copy this old is not trusted and loaded anew. Default: any age."""
    versioned: Annotated[bool, ChangeCost.NEW_RUN] = False
    """True: the source is a data set that is replaced as a whole; look-ups see one version at a time.
    Default: false."""
