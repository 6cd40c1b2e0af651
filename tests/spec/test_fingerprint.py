"""What ends a running attempt and what does not, as its fingerprint tells it."""

from copy import deepcopy
from typing import Annotated, Any

from holdfast.spec.app import AppSpec
from holdfast.spec.diff import fingerprint
from holdfast.spec.fields import ChangeCost, SpecModel
from holdfast.spec.parse import parse_app
from tests.spec.base_app import SMALL


class Newer(SpecModel):
    """A part of the spec that a later release has."""

    often: Annotated[int, ChangeCost.RESTART] = 3


class NewerSpec(AppSpec):
    """The spec of a later release, whose new fields cost a restart where they are used."""

    colour: Annotated[str, ChangeCost.RESTART] = "none"
    newer: Newer = Newer()


def spec(**changes: Any) -> AppSpec:
    tree = deepcopy(SMALL)
    tree["spec"] |= changes
    return parse_app(tree).spec


def test_writing_a_default_down_restarts_nothing() -> None:
    written = {"executors": {"count": 2, "cores": 1}, "trigger": {"interval": "1s"}}
    short, long = ({"driver": {"tolerations": [{"key": "a", **more}]}} for more in ({}, {"operator": "Equal"}))
    assert fingerprint(spec(runtime=short)) == fingerprint(spec(runtime=long))
    assert fingerprint(spec(runtime=written, restart={}, suspend=False)) == fingerprint(spec())


def test_what_is_applied_while_the_app_runs_restarts_nothing() -> None:
    assert fingerprint(spec(restart={"backoff": {"initial": "7s"}, "policy": "Never"})) == fingerprint(spec())


def test_what_needs_a_restart_is_told_apart() -> None:
    variants = [
        spec(runtime={"executors": {"count": 3}}),
        spec(runtime={"sparkConf": {"a": "b"}}),
        spec(runtime={"executors": {"env": [{"name": "A", "value": "b"}]}}),
        spec(runtime={"executors": {"env": [{"name": "A", "value": "c"}]}}),
        spec(runtime={"driver": {"tolerations": [{"key": "a"}]}}),
        spec(runtime={"driver": {"tolerations": [{"key": "a", "value": "b"}]}}),
        spec(state={"size": "20Gi"}),
        spec(expansion={"enabled": False}),
        spec(systems=[{"name": one.name, "kafka": {"bootstrapServers": "other:9092"}} for one in spec().systems]),
    ]
    assert len({fingerprint(one) for one in [spec(), *variants]}) == len(variants) + 1


def test_new_fields_of_an_operator_restart_nothing_until_used() -> None:
    newer = NewerSpec.model_validate({name: getattr(spec(), name) for name in AppSpec.model_fields})
    assert fingerprint(newer) == fingerprint(spec())
    assert fingerprint(newer.model_copy(update={"colour": "red"})) != fingerprint(spec())
    assert fingerprint(newer.model_copy(update={"newer": Newer(often=4)})) != fingerprint(spec())
