"""Which storage class is a cluster's default."""

from typing import Any

import pytest

from holdfast_operator.observe.snapshot import default_of


def of(name: str, default: str | None = None, created: str = "2026-01-01T00:00:00Z") -> dict[str, Any]:
    annotations = {} if default is None else {"storageclass.kubernetes.io/is-default-class": default}
    return {"metadata": {"name": name, "creationTimestamp": created, "annotations": annotations}}


@pytest.mark.parametrize(
    ("classes", "found"),
    [
        ([], None),
        ([of("a"), of("b", "false")], None),
        ([of("a"), of("b", "true")], "b"),
        ([of("old", "true"), of("new", "true", "2026-02-01T00:00:00Z")], "new"),
        ([of("b", "true"), of("a", "true")], "a"),
        ([{"metadata": {"name": "bare"}}], None),
    ],
)
def test_the_default_is_the_one_kubernetes_would_take(classes: list[dict[str, Any]], found: str | None) -> None:
    assert default_of(classes) == found
