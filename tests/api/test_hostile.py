"""Objects written to harm the operator, on a real API server: each is one invalid app, and nobody else notices."""

import functools
import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.api.admin import APPS, CONFIG_MAPS, PODS, RefusedError
from tests.api.conftest import Site
from tests.forked import ForkedProcess
from tests.operator.apps import tree
from tests.spec.hostile import hostile_apps
from tests.waiting import wait_until

Tree = dict[str, Any]
_HOLE = "the hostile part"
HOSTILE = int(os.environ.get("HOLDFAST_HOSTILE_APPS", "60"))
_DEEP = 1_500
"""Levels; `json.loads` of Python gives up at a thousand."""


@pytest.fixture(autouse=True)
def deeper() -> Iterator[None]:
    """The player of the kubelet, and this test, read what no operator can."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(50_000)
    yield
    sys.setrecursionlimit(before)


def _text(app: Tree, name: str, hole: str = "") -> str:
    """An app of this name, with a text in place of its hole."""
    return json.dumps(app | {"metadata": {**app["metadata"], "name": name}}).replace(json.dumps(_HOLE), hole)


def _nested(levels: int) -> str:
    return '{"f:a":' * levels + "{}" + "}" * levels


def _templated(name: str, hole: str) -> str:
    template = {"podTemplate": {"spec": {"hostile": _HOLE}}}
    return _text(tree(runtime={**tree()["spec"]["runtime"], "executors": template}), name, hole)


def deep_template(name: str) -> str:
    return _templated(name, _nested(_DEEP))


def deep_lists(name: str) -> str:
    return _templated(name, "[" * 9_000 + "]" * 9_000)


def wide_template(name: str) -> str:
    return _templated(name, f"[{'[],' * 100_000}[]]")


def nested_types(name: str) -> str:
    cast = f"CAST(k AS {'ARRAY<' * 100}INT{'>' * 100}) IS NULL"
    steps = [{"name": f"s{number}", "from": ["clicks"], "filter": f"{cast} AND {cast}"} for number in range(10)]
    return _text(tree(steps=steps), name)


def endless_code(name: str) -> str:
    return _text(tree(runtime={**tree()["spec"]["runtime"], "code": {"m": "a;" * 450_000}}), name)


ATTACKS: dict[str, Callable[[str], str]] = {
    "deep-template": deep_template,
    "deep-lists": deep_lists,
    "wide-template": wide_template,
    "nested-types": nested_types,
    "endless-code": endless_code,
}


def _states(site: Site) -> dict[str, tuple[str, str]]:
    return {row["Name"]: (row["Ready"], row["Reason"]) for row in site.admin.table(APPS.format(site.namespace))}


def _serves(site: Site, operator: ForkedProcess, suspend: bool) -> None:
    """A good app is taken care of, by the same operator."""
    site.apply(suspend=suspend)
    site.until("Ready", *(("False", "Suspended") if suspend else ("True", "Running")), seconds=60)
    assert operator.poll() is None


def test_an_unreadable_object_is_one_invalid_app_beside_good_ones(site: Site) -> None:
    path = APPS.format(site.namespace)
    with site.operator() as operator:
        _serves(site, operator, suspend=False)
        for name, attack in ATTACKS.items():
            site.admin.send("POST", path, attack(name))
        _serves(site, operator, suspend=True)
        wait_until(lambda: _judged(site), 180, "each has a verdict")
        _serves(site, operator, suspend=False)
    with site.operator() as operator:
        # Now they are in the first list of each watch.
        _serves(site, operator, suspend=True)
        assert _judged(site)
        for name in ATTACKS:
            site.admin.send("DELETE", f"{path}/{name}", "{}")
        wait_until(lambda: _states(site).keys() == {"ads"}, 60, "they can be deleted")


def _judged(site: Site) -> bool:
    states = _states(site)
    unread = ("deep-template", "deep-lists", "wide-template")
    return all(states[one][0] for one in ATTACKS) and all(states[one] == ("False", "InvalidSpec") for one in unread)


def test_managed_fields_may_be_as_deep_as_a_tenant_likes(site: Site) -> None:
    """Of an app, and of what anybody can label as a part of one: all of them are watched."""
    managed = {
        "manager": "m",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": _HOLE,
        "time": "2026-01-01T00:00:00Z",
    }
    metadata = {
        "managedFields": [managed],
        "labels": {"holdfast.dev/app": "other", "holdfast.dev/report": "other"},
    }
    container = {
        "name": "c",
        "image": "i",
        "securityContext": {"allowPrivilegeEscalation": False, "capabilities": {"drop": ["ALL"]}},
    }
    closed = {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "securityContext": closed},
    }
    config_map = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"report.json": "[" * 100_000}}
    app = tree(suspend=True)
    app["metadata"] |= {"managedFields": [managed | {"apiVersion": "holdfast.dev/v1alpha1"}]}
    with site.operator() as operator:
        _serves(site, operator, suspend=False)
        site.admin.send("POST", PODS.format(site.namespace), _text(pod, "pod", _nested(_DEEP)))
        site.admin.send("POST", CONFIG_MAPS.format(site.namespace), _text(config_map, "report", _nested(_DEEP)))
        site.admin.send("POST", APPS.format(site.namespace), _text(app, "managed", _nested(_DEEP)))
        wait_until(lambda: _states(site).get("managed") == ("False", "Suspended"), 60, "it is an app like others")
        _serves(site, operator, suspend=True)
    with site.operator() as operator:
        _serves(site, operator, suspend=False)


@pytest.mark.long
def test_nobody_notices_hostile_apps_by_the_hundred(site: Site) -> None:
    path = APPS.format(site.namespace)
    good = [f"good-{number}" for number in range(HOSTILE // 10)]
    accepted = 0
    with site.operator() as operator:
        for number, hostile in enumerate(hostile_apps(HOSTILE, seed=1)):
            try:
                site.admin.send("POST", path, json.dumps(hostile))
                accepted += 1
            except RefusedError as error:
                # Invalid, or more than the API server hands on ("too large", "larger than max") or judges in its time.
                assert error.status in (400, 413, 422, 504) or "large" in str(error), error
            if number % 10 == 0:
                site.apply(good[number // 10], suspend=True)
        for name in good:
            condition = functools.partial(site.condition, "Ready", name)
            wait_until(lambda condition=condition: condition() == ("False", "Suspended"), 60, f"{name} is seen")  # type: ignore[misc]
        _serves(site, operator, suspend=False)
        # Of a few the API server itself takes no status in its time, as it judges the whole spec again.
        wait_until(lambda: sum(bool(ready) for ready, _ in _states(site).values()) > 0.9 * accepted, 300, "verdicts")
        assert operator.poll() is None
        site.admin.send("DELETE", path, "{}")
        wait_until(lambda: not _states(site), 120, "they can be deleted")
    assert accepted > HOSTILE // 3
