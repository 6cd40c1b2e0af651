"""What the client of a schema registry makes of answers that a real one rarely gives, and of none."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager

import pytest

from holdfast.errors import HoldfastError, UserActionError, WorldChangeError
from holdfast_runtime.streams.registry.answers import MOST_BYTES
from holdfast_runtime.streams.registry.client import RegisteredSchema, SchemaRegistry
from holdfast_runtime.streams.registry.connection import RegistryUnreachableError
from holdfast_runtime.streams.registry.patience import RegistryPatience
from holdfast_runtime.streams.registry.settings import RegistrySettings
from tests.error_codes import has_code
from tests.registry.scripted import PatientClock, ScriptedAnswer, ScriptedRegistry

Ask = Callable[[SchemaRegistry], object]
LOGIN = {"username": "reader", "password": "hunter2!"}
TEXT = '{"type": "string"}'
SCHEMA = {"schema": TEXT}
AWAY, UNKNOWN = 15.0, 5.0


def answer(body: object, status: int = 200) -> ScriptedAnswer:
    return ScriptedAnswer(status, json.dumps(body).encode())


NO_SUCH_SCHEMA = answer({"error_code": 40403, "message": "Schema not found"}, 404)


@contextmanager
def asking(
    *answers: ScriptedAnswer, path: str = "", patience: RegistryPatience | None = None
) -> Iterator[tuple[SchemaRegistry, ScriptedRegistry]]:
    script = ScriptedRegistry(list(answers))
    with script.running() as origin:
        settings = RegistrySettings(origin + path, "events", LOGIN)
        with closing(SchemaRegistry(settings, patience or PatientClock().patience())) as registry:
            yield registry, script


def by_id(registry: SchemaRegistry) -> object:
    return registry.by_id(7)


def latest(registry: SchemaRegistry) -> object:
    return registry.latest("a/b")


def subjects(registry: SchemaRegistry) -> object:
    return registry.subjects()


def id_of(registry: SchemaRegistry) -> object:
    return registry.id_of("a/b", "JSON", TEXT)


def register(registry: SchemaRegistry) -> object:
    return registry.register("a/b", "AVRO", TEXT)


def test_requests_name_subject_schema_and_login() -> None:
    version = {"id": 7, "version": 2, "schemaType": "JSON", **SCHEMA}
    with asking(answer(version), answer(version), answer({"id": 9}), answer(["a"]), path="/api/") as (registry, script):
        assert registry.latest("a/b") == RegisteredSchema(7, "JSON", TEXT)
        assert registry.id_of("a/b", "JSON", TEXT) == 7
        assert registry.register("a/b", "AVRO", TEXT) == 9
        assert registry.subjects() == ["a"]
    assert [(method, path, body) for method, path, _, body in script.requests] == [
        ("GET", "/api/subjects/a%2Fb/versions/latest", b""),
        ("POST", "/api/subjects/a%2Fb", json.dumps({"schema": TEXT, "schemaType": "JSON"}).encode()),
        ("POST", "/api/subjects/a%2Fb/versions", json.dumps({"schema": TEXT}).encode()),
        ("GET", "/api/subjects", b""),
    ]
    assert {headers["Authorization"] for _, _, headers, _ in script.requests} == {"Basic cmVhZGVyOmh1bnRlcjIh"}
    assert len(script.connections) == 1


def test_an_id_is_asked_once_and_its_absence_again() -> None:
    clock = PatientClock()
    with asking(NO_SUCH_SCHEMA, NO_SUCH_SCHEMA, answer(SCHEMA), patience=clock.patience()) as (registry, script):
        first = registry.by_id(7)
        assert first == RegisteredSchema(7, "AVRO", TEXT)
        assert registry.by_id(7) is first
        assert len(script.requests) == 3
        assert 0 < clock.passed < UNKNOWN
        script.answers[:] = [NO_SUCH_SCHEMA]
        before = clock.passed
        assert registry.by_id(8) is None
        assert clock.passed - before == pytest.approx(UNKNOWN)


def test_a_subject_or_text_is_absent_at_once() -> None:
    clock = PatientClock()
    no_subject = answer({"error_code": 40401}, 404)
    with asking(no_subject, NO_SUCH_SCHEMA, patience=clock.patience()) as (registry, _):
        assert registry.latest("a") is None
        assert registry.id_of("a", "AVRO", TEXT) is None
    assert clock.passed == 0


@pytest.mark.parametrize("failure", [500, 502, 503, 429])
@pytest.mark.parametrize("ask", [by_id, latest, id_of, register])
def test_a_registry_that_comes_back_is_waited_for(ask: Ask, failure: int) -> None:
    version = {"id": 7, **SCHEMA}
    with asking(ScriptedAnswer(failure, b"<html>"), answer(version, failure), answer(version)) as (registry, script):
        ask(registry)
        assert len(script.requests) == 3


MISFITS = {
    "html": (ScriptedAnswer(200, b"<html>Welcome</html>"), by_id, "it is not JSON"),
    "nothing": (ScriptedAnswer(200, b""), by_id, "it is not JSON"),
    "no Unicode": (ScriptedAnswer(200, b'{"schema": "\xff"}'), by_id, "it is not JSON"),
    "half a letter": (ScriptedAnswer(200, b'{"schema": "\\ud800"}'), by_id, "its schema is not Unicode"),
    "a list": (answer([]), by_id, "it has no schema"),
    "no schema": (answer({}), by_id, "it has no schema"),
    "a number as schema": (answer({"schema": 1}), by_id, "its schema is no str"),
    "a number as kind": (answer({**SCHEMA, "schemaType": 1}), by_id, "its schemaType is no str"),
    "a text as references": (answer({**SCHEMA, "references": "x"}), by_id, "its references is no list"),
    "a text as reference": (answer({**SCHEMA, "references": ["x"]}), by_id, "it has no name"),
    "no version": (answer({**SCHEMA, "references": [{"name": "x", "subject": "x"}]}), by_id, "it has no version"),
    "no id": (answer(SCHEMA), latest, "it has no id"),
    "a text as id": (answer({"id": "7"}), register, "its id is no int"),
    "true as id": (answer({"id": True}), register, "its id is not a number from 0"),
    "an id below 0": (answer({"id": -1}), register, "its id is not a number from 0"),
    "an object as subjects": (answer({}), subjects, "it is not a list of names"),
    "numbers as subjects": (answer([1]), subjects, "it is not a list of names"),
    "too long": (ScriptedAnswer(200, b" " * (MOST_BYTES + 2)), by_id, f"at most {MOST_BYTES} are read"),
    "too deep": (ScriptedAnswer(200, b"[" * 1000 + b"]" * 1000), by_id, "nested deeper"),
    "too many": (ScriptedAnswer(200, b"[" + b"[]," * 300_000 + b"[]]"), by_id, "more than"),
    "a page of another server": (ScriptedAnswer(404, b"<html>no such page</html>"), by_id, "it answered 404"),
    "another API": (
        answer({"error_code": 404, "message": "HTTP 404 Not Found"}, 404),
        latest,
        "404 HTTP 404 Not Found",
    ),
    "elsewhere": (ScriptedAnswer(302, b"", (("Location", "http://127.0.0.1:9/"),)), by_id, "it answered 302"),
    "a reason that forges lines": (answer({"message": "a\n\x1b[2Jb\u202e"}, 500), by_id, "it answered 500 a  [2Jb."),
    "a reason without end": (answer({"message": "x" * 10_000}, 500), by_id, "xxx..."),
    "a reason of another type": (
        answer({"message": {"error_code": []}, "error_code": []}, 500),
        by_id,
        "answered 500.",
    ),
}


@pytest.mark.parametrize("case", MISFITS)
def test_what_no_registry_answers_is_said_after_a_while(case: str) -> None:
    misfit, ask, reason = MISFITS[case]
    clock = PatientClock()
    with asking(misfit, patience=clock.patience()) as (registry, script):
        with pytest.raises(RegistryUnreachableError) as raised:
            ask(registry)
        assert clock.passed == pytest.approx(AWAY)
        script.answers[:] = [answer(["a"])]
        assert registry.subjects() == ["a"]
    message = str(raised.value)
    assert reason in message
    assert "of system events gave no usable answer to " in message
    assert "Check that it runs" in message
    assert len(message) < 2000
    assert message.isprintable()


@pytest.mark.parametrize(
    ("status", "ask", "code"),
    [
        *((status, ask, "RegistryLoginError") for status in (401, 403) for ask in (by_id, subjects, register)),
        *((status, ask, "RegistryRefusedError") for status in (400, 409, 413, 422) for ask in (id_of, register)),
    ],
)
def test_refusals_are_said_at_once_and_without_the_password(status: int, ask: Ask, code: str) -> None:
    clock = PatientClock()
    refusal = answer({"error_code": status, "message": "not so\nwith hunter2!"}, status)
    with asking(refusal, patience=clock.patience()) as (registry, script):
        with pytest.raises(
            UserActionError, check=has_code(code), match=f"{status} not so with \\*\\*\\*.*Correct|Grant"
        ):
            ask(registry)
        assert len(script.requests) == 1
    assert clock.passed == 0


def test_a_closed_port_is_said_after_a_while() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
    clock = PatientClock()
    for origin, reason in ((url, "Connection refused"), ("http://no..host", "")):
        before = clock.passed
        with (
            closing(SchemaRegistry(RegistrySettings(origin, "events", LOGIN), clock.patience())) as registry,
            pytest.raises(
                RegistryUnreachableError, match=f"{origin} of system events .* GET /schemas/ids/7: .*{reason}"
            ),
        ):
            registry.by_id(7)
        assert clock.passed - before == pytest.approx(AWAY)


def test_a_server_without_encryption_is_told_from_a_registry() -> None:
    with ScriptedRegistry([answer([])]).running() as origin:
        settings = RegistrySettings(origin.replace("http:", "https:"), "events", LOGIN)
        with (
            closing(SchemaRegistry(settings, PatientClock().patience())) as registry,
            pytest.raises(
                UserActionError, check=has_code("RegistryLoginError"), match=r"no encrypted connection.*or its url"
            ),
        ):
            registry.subjects()


def test_a_silent_server_is_given_its_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        settings = RegistrySettings(f"http://127.0.0.1:{server.getsockname()[1]}", "events", {})
        patience = PatientClock().patience(answer=0.02, away=0.0)
        with (
            closing(SchemaRegistry(settings, patience)) as registry,
            pytest.raises(RegistryUnreachableError, match="no answer in time"),
        ):
            registry.by_id(7)


def test_an_answer_that_breaks_off_is_asked_for_again() -> None:
    texts = [
        b'HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{"schema": "x"',
        b"HTTP/1.1 200 OK\r\nCon",
        b"SSH-2.0-x\r\n",
    ]
    texts.append(b'HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\n{"schema": "x"}')

    def serve() -> None:
        for text in texts:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(text)

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        settings = RegistrySettings(f"http://127.0.0.1:{server.getsockname()[1]}", "events", {})
        with closing(SchemaRegistry(settings, PatientClock().patience())) as registry:
            assert registry.by_id(7) == RegisteredSchema(7, "AVRO", "x")
        thread.join()


def refers(*subjects: str) -> ScriptedAnswer:
    return answer({**SCHEMA, "references": [{"name": name, "subject": name, "version": 1} for name in subjects]})


@pytest.mark.parametrize(
    ("answers", "reason"),
    [
        ([refers("a"), refers("b"), refers("a")], "version 1 of subject a refers to itself"),
        ([refers("a"), NO_SUCH_SCHEMA], "version 1 of subject a, which the registry does not have"),
        ([refers(*map(str, range(300))), answer(SCHEMA)], "more than 256 others"),
        ([refers(str(number)) for number in range(300)], "more than 256 others"),
    ],
    ids=["circle", "missing", "many", "deep"],
)
def test_references_that_can_not_be_followed_are_said(answers: list[ScriptedAnswer], reason: str) -> None:
    with (
        asking(*answers) as (registry, _),
        pytest.raises(WorldChangeError, check=has_code("RegistryReferenceError"), match=reason) as raised,
    ):
        registry.by_id(7)
    assert isinstance(raised.value, HoldfastError)


def test_a_schema_that_two_refer_to_is_there_once() -> None:
    with asking(refers("a", "b"), refers("c"), answer({"schema": "c"}), refers("c")) as (registry, script):
        schema = registry.by_id(7)
    assert schema is not None
    assert schema.references == (("c", "c"), ("a", TEXT), ("b", TEXT))
    assert [path for _, path, _, _ in script.requests][1:] == [
        f"/subjects/{name}/versions/1?deleted=true" for name in ("a", "c", "b")
    ]
