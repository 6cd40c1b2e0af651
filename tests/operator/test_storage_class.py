"""Of which storage class an app's claims are: the one it names, or the cluster's default."""

import asyncio
from typing import Any

import pytest

from holdfast.api_answers import ApiRefusedError
from holdfast.reasons import Reason
from holdfast.spec.parse import parse_app
from holdfast_operator.decide.facts import Unknown, read_spec
from holdfast_operator.examine.start_checks import judge
from holdfast_operator.observe.storage_classes import StorageClasses, default_of
from tests.operator.apps import POLICY, app, seen, tree


def of(name: str, default: str | None = None, created: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    annotations = {} if default is None else {"storageclass.kubernetes.io/is-default-class": default}
    return {"metadata": {"name": name, "creationTimestamp": created, "annotations": annotations}}


@pytest.mark.parametrize(
    ("classes", "default"),
    [
        ([], None),
        ([of("a"), of("b", "false")], None),
        ([of("a"), of("b", "true")], "b"),
        ([of("old", "true"), of("new", "true", "2026-02-01T00:00:00Z")], "new"),
        ([of("b", "true"), of("a", "true")], "a"),
        ([{"metadata": {"name": "bare"}}], None),
    ],
)
def test_the_default_is_the_one_kubernetes_would_take(classes: list[dict[str, Any]], default: str | None) -> None:
    assert default_of(classes) == default


class Classes:
    """The API server, as far as it lists classes."""

    def __init__(self, *classes: dict[str, Any], refuses: bool = False) -> None:
        self.classes, self.refuses = list(classes), refuses

    async def find(self, *_: object) -> list[dict[str, Any]]:
        if self.refuses:
            message = "list StorageClass: forbidden"
            raise ApiRefusedError(message)
        return self.classes


@pytest.mark.parametrize(
    ("cluster", "allowed", "state", "storage_class"),
    [
        (Classes(of("slow"), of("fast", "true")), True, {}, "fast"),
        (Classes(of("slow"), of("fast", "true")), True, {"storageClass": "slow"}, "slow"),
        (Classes(of("slow"), of("fast", "true")), True, {"storageClass": "slwo"}, None),
        (Classes(of("slow")), True, {}, None),
        (Classes(), True, {"location": "Pod"}, ""),
        (Classes(), False, {}, None),
        (Classes(), False, {"storageClass": "slwo"}, "slwo"),
        (Classes(refuses=True), True, {"storageClass": "slwo"}, "slwo"),
    ],
)
def test_claims_are_of_a_class_that_is_there(
    cluster: Any, allowed: bool, state: dict[str, Any], storage_class: str | None
) -> None:
    of_app = parse_app(tree(state=state))
    assert asyncio.run(StorageClasses(cluster, allowed).of(of_app, live=False)) == storage_class


def test_unlistable_classes_are_a_reason_to_name_one() -> None:
    answer = asyncio.run(StorageClasses(Classes(refuses=True)).of(parse_app(tree()), live=False))  # type: ignore[arg-type]
    assert isinstance(answer, Unknown)
    assert "spec.state.storageClass" in answer.why


def test_a_missing_class_is_named_before_anything_is_made() -> None:
    named = app(state={"storageClass": "slwo"})
    against = judge(seen(named, storage_class=None).grounds, read_spec(named.tree), POLICY).against
    assert against is not None
    assert (against.reason, "no StorageClass slwo" in against.message) == (Reason.STORAGE_CLASS_MISSING, True)
