"""What each answer of an API server means: the error by the way out, its code, and what to do."""

import json

import pytest

from holdfast.api_answers import (
    ApiConflictError,
    ApiRefusedError,
    ApiUnreachableError,
    NamespaceEndsError,
    NotAllowedError,
    api_error,
    object_in,
)
from holdfast.errors import HoldfastError, RetrySoonError, UserActionError, WorldChangeError


def answer(message: str, *causes: str) -> bytes:
    """A refusal as the API server writes it."""
    details = {"causes": [{"reason": cause} for cause in causes]}
    return json.dumps({"kind": "Status", "message": message, "details": details}).encode()


@pytest.mark.parametrize(
    ("status", "kind", "code", "text"),
    [
        (
            401,
            NotAllowedError,
            "CredentialsError",
            "prod does not accept the credentials, they may have expired",
        ),
        (403, NotAllowedError, "RightMissingError", "no; ask whoever runs the cluster for the right to get pods/log"),
        (
            404,
            UserActionError,
            "NotInstalledError",
            "prod knows no pods/log: Holdfast's CustomResourceDefinition",
        ),
        (409, ApiConflictError, "ApiConflictError", "get pods/log: no"),
        (410, ApiRefusedError, "ApiRefusedError", "prod answered 410 to get pods/log: no"),
        (422, ApiRefusedError, "ApiRefusedError", "prod answered 422 to get pods/log: no"),
        (429, ApiUnreachableError, "ApiUnreachableError", "prod can't answer now (429) to get pods/log: no"),
        (500, ApiUnreachableError, "ApiUnreachableError", "prod can't answer now (500) to get pods/log: no"),
        (503, ApiUnreachableError, "ApiUnreachableError", "prod can't answer now (503) to get pods/log: no"),
    ],
)
def test_each_status_has_its_error_and_its_cure(status: int, kind: type[HoldfastError], code: str, text: str) -> None:
    error = api_error("get pods/log", status, answer("no"), who="prod")
    assert (type(error), error.code) == (kind, code)
    assert str(error).startswith(text)


def test_a_refused_create_may_lack_more_than_a_right() -> None:
    error = api_error("create pods", 403, answer("pods is forbidden: exceeded quota"))
    assert str(error).endswith("for the right, the quota or an exception to create pods")


@pytest.mark.parametrize(("status", "kind"), [(403, NamespaceEndsError), (409, ApiConflictError)])
def test_a_namespace_that_ends_is_no_missing_right(status: int, kind: type[HoldfastError]) -> None:
    assert type(api_error("create pods", status, answer("no", "NamespaceTerminating"))) is kind


def test_a_lost_race_is_retried_and_a_refusal_waits() -> None:
    assert issubclass(ApiConflictError, RetrySoonError)
    assert issubclass(ApiUnreachableError, RetrySoonError)
    assert issubclass(NotAllowedError, ApiRefusedError)
    assert issubclass(ApiRefusedError, WorldChangeError)
    assert issubclass(NamespaceEndsError, WorldChangeError)


@pytest.mark.parametrize("content", [b"", b"404 page not found", b"[1]", b"\xff", b"[" * 10_000])
def test_an_answer_without_an_object_is_shown_as_it_is(content: bytes) -> None:
    assert object_in(content) == {}
    error = api_error("get pods", 400, content)
    assert str(error).isprintable()
    assert len(str(error)) < 600


def test_a_text_in_braces_is_a_text() -> None:
    assert "{who} {0}" in str(api_error("get pods", 422, answer("{who} {0}")))
