"""What the client of a schema registry has from a real one, also behind encryption and a login."""

import http.client
import json
import select
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.streams.registry.client import RegisteredSchema, SchemaRegistry
from holdfast_runtime.streams.registry.settings import RegistrySettings, registry_settings
from tests.error_codes import has_code
from tests.registry.guard import PASSWORD, USER, Certificates, guarded
from tests.registry.scripted import PatientClock
from tests.registry.server import ANSWER_TIMEOUT, API, Apicurio
from tests.waiting import patience

JSON_SCHEMA = '{"type": "object", "properties": {"a": {"type": "string"}}}'
PROTOBUF_SCHEMA = 'syntax = "proto3";\npackage x;\nmessage Base { string id = 1; }\n'


def avro(*fields: str) -> str:
    """A schema of a record."""
    return json.dumps({"type": "record", "name": "Row", "fields": [{"name": name, "type": "long"} for name in fields]})


@pytest.fixture
def registry(apicurio: Apicurio) -> Iterator[SchemaRegistry]:
    """A client without a login, which waits for nothing really."""
    with closing(SchemaRegistry(RegistrySettings(apicurio.url, "events", {}), PatientClock().patience())) as client:
        yield client


@pytest.mark.smoke
@pytest.mark.parametrize(
    ("kind", "text"),
    [("AVRO", avro("a")), ("JSON", JSON_SCHEMA), ("PROTOBUF", PROTOBUF_SCHEMA)],
    ids=lambda value: value[:4],
)
def test_a_registered_schema_is_there_by_id_text_and_subject(
    apicurio: Apicurio, registry: SchemaRegistry, kind: str, text: str
) -> None:
    subject = f"there/{kind}-value"
    schema_id = registry.register(subject, kind, text)
    assert registry.register(subject, kind, text) == schema_id
    assert registry.id_of(subject, kind, text) == schema_id
    expected = RegisteredSchema(schema_id, kind, text)
    assert registry.by_id(schema_id) == expected
    assert registry.latest(subject) == expected
    assert subject in registry.subjects()
    with closing(SchemaRegistry(RegistrySettings(apicurio.url + "/", "events", {}))) as other:
        assert other.latest(subject) == expected
        assert other.by_id(schema_id) == expected


def test_the_latest_schema_follows_those_before(registry: SchemaRegistry) -> None:
    first, second = (registry.register("followed", "AVRO", avro(*fields)) for fields in ("a", "ab"))
    assert first != second
    latest = registry.latest("followed")
    assert latest is not None
    assert (latest.id, latest.text) == (second, avro("a", "b"))
    assert registry.id_of("followed", "AVRO", avro("a")) == first


def test_what_is_not_registered_is_none(registry: SchemaRegistry) -> None:
    registry.register("without", "AVRO", avro("a"))
    assert registry.by_id(987_654) is None
    assert registry.latest("no-such-subject") is None
    assert registry.id_of("no-such-subject", "AVRO", avro("a")) is None
    assert registry.id_of("without", "AVRO", avro("z")) is None
    assert registry.id_of("without", "JSON", JSON_SCHEMA) is None


def test_references_come_with_texts_and_dependencies_first(apicurio: Apicurio, registry: SchemaRegistry) -> None:
    def text(name: str, *imports: str) -> str:
        lines = ['syntax = "proto3";', "package x;", *(f'import "{one}.proto";' for one in imports)]
        return "\n".join([*lines, f"message {name.title()} {{ string id = 1; }}", ""])

    imported = {"base": (), "left": ("base",), "right": ("base",), "top": ("right", "left")}
    texts = {name: text(name, *imports) for name, imports in imported.items()}
    for name, imports in imported.items():
        references = [{"name": f"{one}.proto", "subject": f"in/{one}", "version": 1} for one in imports]
        request = {"schemaType": "PROTOBUF", "schema": texts[name], "references": references}
        schema_id = apicurio.request("POST", f"/subjects/in%2F{name}/versions", request)["id"]
    schema = registry.by_id(schema_id)
    assert schema is not None
    assert schema.text == texts["top"]
    assert schema.references == tuple((f"{name}.proto", texts[name]) for name in ("base", "right", "left"))
    assert registry.latest("in/top") == schema


def test_schemas_are_refused_with_the_reason_of_the_registry(apicurio: Apicurio, registry: SchemaRegistry) -> None:
    registry.register("kept", "AVRO", avro("a"))
    apicurio.request("PUT", "/config/kept", {"compatibility": "BACKWARD"})
    with pytest.raises(
        UserActionError, check=has_code("RegistryRefusedError"), match=r"/subjects/kept/.*b at /fields/1"
    ):
        registry.register("kept", "AVRO", avro("a", "b"))
    with pytest.raises(UserActionError, check=has_code("RegistryRefusedError"), match="422"):
        registry.register("kept", "AVRO", "{not a schema")
    assert registry.latest("kept") == registry.by_id(registry.register("kept", "AVRO", avro("a")))


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    return Certificates.made(tmp_path_factory.mktemp("certificates"))


def test_an_encrypted_registry_answers_whom_its_secret_lets_in(
    apicurio: Apicurio, certificates: Certificates, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    secret = tmp_path / "registry-auth"
    secret.mkdir()
    entries = {"username": USER, "password": PASSWORD, "ca.crt": certificates.certificate("server")}
    entries |= {"tls.crt": certificates.certificate("client"), "tls.key": certificates.key("client")}
    for name, text in entries.items():
        (secret / name).write_text(text)
    with guarded(certificates, apicurio.port, asks_for_certificate=True) as origin:
        settings = registry_settings("events", origin + API, "registry-auth", tmp_path, {})
        with closing(SchemaRegistry(settings)) as registry:
            schema_id = registry.register("sealed", "AVRO", avro("a"))
            assert registry.by_id(schema_id) == RegisteredSchema(schema_id, "AVRO", avro("a"))
    assert capfd.readouterr() == ("", "")


def test_wrong_logins_and_foreign_certificates_are_refused_with_cures(
    apicurio: Apicurio, certificates: Certificates, capfd: pytest.CaptureFixture[str]
) -> None:
    right = {"username": USER, "password": PASSWORD, "ca.crt": certificates.certificate("server")}
    with guarded(certificates, apicurio.port) as origin:
        for wrong, reason in (
            ({"password": "a wrong password"}, "401 Unauthorized. Correct its login"),
            ({"username": "", "password": ""}, "401 Unauthorized. Correct its login"),
            ({"ca.crt": certificates.certificate("other")}, "no encrypted connection: self-signed certificate"),
        ):
            settings = RegistrySettings(origin + API, "events", {**right, **wrong})
            with (
                closing(SchemaRegistry(settings)) as registry,
                pytest.raises(UserActionError, check=has_code("RegistryLoginError")) as raised,
            ):
                registry.subjects()
            message = str(raised.value)
            assert reason in message
            assert "Secret" in message
            assert "password" not in message.replace("username and password", "")
            assert "BEGIN" not in message
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("waits", [False, True], ids=["asks-at-once", "asks-after-the-refusal"])
def test_a_client_without_its_certificate_is_not_answered(
    apicurio: Apicurio, certificates: Certificates, monkeypatch: pytest.MonkeyPatch, *, waits: bool
) -> None:
    def connected_and_refused(connection: http.client.HTTPSConnection) -> None:
        connect(connection)
        closed = select.poll()
        closed.register(connection.sock, 0)  # which still tells of a connection that was broken off
        assert closed.poll(patience(ANSWER_TIMEOUT) * 1000), "the server kept the connection of a client it refuses"

    login = {"username": USER, "password": PASSWORD, "ca.crt": certificates.certificate("server")}
    with guarded(certificates, apicurio.port, asks_for_certificate=True) as origin:
        settings = RegistrySettings(origin + API, "events", login)
        connect = http.client.HTTPSConnection.connect
        if waits:
            monkeypatch.setattr(http.client.HTTPSConnection, "connect", connected_and_refused)
        with (
            closing(SchemaRegistry(settings, PatientClock().patience())) as registry,
            pytest.raises(UserActionError, check=has_code("RegistryLoginError"), match=r"tls\.crt and tls\.key"),
        ):
            registry.subjects()
