"""Why: what the operator tells about an app, in the object itself: counts and conditions, nothing that grows.

Written by the operator alone. Details (tasks, places, plans) go to ConfigMaps; a status that lists them is refused by
etcd one day.
"""

from typing import Annotated, Literal

from pydantic import Field

from holdfast.spec.base import SpecModel


class Condition(SpecModel):
    """One thing that is true, false or unknown of the app, in the shape Kubernetes gives to conditions."""

    type: Annotated[str, Field(max_length=316)]
    """What is said, e.g. Ready."""
    status: Literal["True", "False", "Unknown"]
    """Whether it is so."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """Why, in one word of the closed list of reasons."""
    message: Annotated[str, Field(max_length=32768)]
    """Why, in a sentence that says what to do."""
    last_transition_time: Annotated[str, Field(json_schema_extra={"format": "date-time"})]
    """When the status changed last."""
    observed_generation: Annotated[int | None, Field(ge=0, json_schema_extra={"format": "int64"})] = None
    """The generation of the app this is said about."""


StatusCount = Annotated[int | None, Field(ge=0, json_schema_extra={"format": "int64"})]


class Status(SpecModel):
    """What the operator has observed and intends."""

    observed_generation: StatusCount = None
    """The generation of the app that was reconciled last."""
    run_id: Annotated[str | None, Field(max_length=63)] = None
    """The run that attempts are counted in."""
    attempt: StatusCount = None
    """Number of the latest attempt of this run; written before its driver is made."""
    spec_hash: Annotated[str | None, Field(max_length=128)] = None
    """Hash of the spec that attempt runs; written with its number."""
    driver_uid: Annotated[str | None, Field(max_length=64)] = None
    """Its driver pod, once seen."""
    draining: Annotated[str | None, Field(max_length=64)] = None
    """Why it is asked to end; written before it is asked."""
    ended: Annotated[str | None, Field(max_length=64)] = None
    """How it ended: Drained, Completed, Failed, Refused or Lost."""
    failures: StatusCount = None
    """How many attempts failed one after the other."""
    retry_at: Annotated[str | None, Field(json_schema_extra={"format": "date-time"})] = None
    """Before this there is no next attempt."""
    tasks: StatusCount = None
    """How many tasks the app has."""
    placed: Annotated[str | None, Field(max_length=32)] = None
    """How many of them run where their state is, e.g. `14/16`."""
    partitions: StatusCount = None
    """How many input partitions are read."""
    restarts: StatusCount = None
    """How many attempts of this run failed and were followed by another."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=32)] = ()
    """Ready, Reconciling, Stalled and what they rest on; each has one writer."""
