"""Invariant 6 on a real API server: it takes and refuses what the model does, as `kubectl apply` would send it."""

import json
from typing import Any

import pytest

from tests.api.admin import APPS, RefusedError
from tests.api.conftest import Site
from tests.operator.apps import tree
from tests.spec.corpus import CASES

_INVALID = (400, 422)


@pytest.mark.long
def test_the_api_server_and_the_model_agree_on_every_spec(site: Site) -> None:
    path = f"{APPS.format(site.namespace)}?dryRun=All&fieldValidation=Strict"
    disagree = [case.name for case in CASES if _accepted(site, path, case.tree) != case.good]
    assert disagree == []


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ({"join": {"by": ["k"], "type": "Inner"}}, ["steps[1].join", "step odd: a join has within, or before"]),
        ({"lookup": {"table": "users"}}, ["spec.steps[1].lookup.by: Required value"]),
        (
            {"aggregate": {"by": ["k"], "compute": ["count(*) AS n"], "window": "0s"}},
            ["steps[1].aggregate.window", "step odd: must be longer than nothing"],
        ),
        (
            {"process": {"function": "f:g", "by": ["k"]}, "was": "written"},
            ['the state under one name belongs to one step: {"written":"odd"}'],
        ),
    ],
    ids=["join", "lookup", "window", "was"],
)
def test_a_refusal_names_the_step_and_points_to_its_field(site: Site, step: dict[str, Any], says: list[str]) -> None:
    app = tree()
    app["spec"]["steps"].append({"name": "odd", "from": ["clicks"], **step})
    with pytest.raises(RefusedError) as refused:
        site.admin.create(f"{APPS.format(site.namespace)}?dryRun=All", app)
    message = refused.value.answer["message"]
    assert all(part in message for part in says), message


def _accepted(site: Site, path: str, tree: Any) -> bool:
    # What has no place in JSON (a date, a number of YAML) never reaches an API server as such.
    sent = json.loads(json.dumps(tree, default=str))
    if isinstance(sent, dict) and isinstance(sent.get("metadata"), dict):
        sent["metadata"].pop("namespace", None)
    try:
        site.admin.create(path, sent)
    except RefusedError as error:
        if error.status not in _INVALID:
            raise
        return False
    return True
