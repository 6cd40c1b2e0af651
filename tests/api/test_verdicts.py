"""Invariant 6 on a real API server: it takes and refuses what the model does, as `kubectl apply` would send it."""

import json
from typing import Any

from tests.api.admin import APPS, RefusedError
from tests.api.conftest import Site
from tests.spec.corpus import CASES

_INVALID = (400, 422)


def test_the_api_server_and_the_model_agree_on_every_spec(site: Site) -> None:
    path = f"{APPS.format(site.namespace)}?dryRun=All&fieldValidation=Strict"
    disagree = [case.name for case in CASES if _accepted(site, path, case.tree) != case.good]
    assert disagree == []


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
