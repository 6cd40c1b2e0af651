"""Small objects that are created in one request: whose they are, answers that are lost, stores without conditions."""

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import HoldfastError
from holdfast_runtime.checkpoint.directories import storage_at
from holdfast_runtime.state.durable.object_service import S3Service, reading_client, writing_client
from holdfast_runtime.state.durable.object_storage import ObjectStorage
from holdfast_runtime.state.errors import CheckpointUnavailableError
from tests.kafka.broker import free_ports
from tests.s3.damaging import Answer, Damaging, Spoil, failed
from tests.s3.gateway import CREDENTIALS, Gateway


@pytest.fixture
def damaging(gateway: Gateway) -> Iterator[Damaging]:
    """A server that no other test has used: what a process knows of its store is kept."""
    with Damaging(gateway.bucket()) as spoiled:
        yield spoiled


@pytest.fixture
def fresh_clients() -> Iterator[None]:
    """Clients that take their credentials now; none of them is left for other tests."""
    for opened in (reading_client, writing_client):
        opened.cache_clear()
    yield
    for opened in (reading_client, writing_client):
        opened.cache_clear()


def as_if_written(answer: Answer) -> Answer:
    """What a store says that does not know conditions."""
    return replace(answer, status=200, headers={"ETag": '"etag"'}, body=b"", length=0)


def not_implemented(answer: Answer) -> Answer:
    """What a store says that refuses headers it does not know."""
    body = b"<Error><Code>NotImplemented</Code><Message>If-None-Match is not implemented</Message></Error>"
    return replace(answer, status=501, body=body, length=len(body))


def test_of_many_writers_at_once_one_has_the_name(gateway: Gateway) -> None:
    storage = gateway.bucket().storage
    contents = [b"writer %d" % number for number in range(16)]
    with ThreadPoolExecutor(len(contents)) as pool:
        sizes = list(pool.map(lambda content: storage.write("one", [content]), contents))
    (winner,) = (content for content, size in zip(contents, sizes, strict=True) if size is not None)
    assert storage.read("one") == winner


def test_a_write_whose_answer_is_lost_is_known_as_ours(damaging: Damaging) -> None:
    storage = damaging.bucket.storage
    storage.write("first", [b"1"])
    damaging.requests.clear()
    damaging.next("PUT", "one", failed)
    assert storage.write("one", [b"content"]) == len(b"content")
    assert storage.read("one") == b"content"
    assert len([request for request in damaging.requests if request.startswith("PUT")]) == 2


def test_a_lost_refusal_is_not_taken_for_a_write(damaging: Damaging) -> None:
    storage = damaging.bucket.storage
    damaging.behind.storage.write("one", [b"of another"])
    storage.write("first", [b"1"])
    damaging.next("PUT", "one", failed)
    assert storage.write("one", [b"content"]) is None
    assert storage.read("one") == b"of another"


@pytest.mark.parametrize("spoil", [as_if_written, not_implemented])
def test_where_the_store_knows_no_conditions_writers_look(damaging: Damaging, spoil: Spoil) -> None:
    storage = damaging.bucket.storage
    damaging.next("PUT", "first", spoil, times=2 if spoil is as_if_written else 1)
    assert storage.write("first", [b"1"]) == 1
    assert storage.write("first", [b"22"]) is None
    damaging.requests.clear()
    assert storage.write("second", [b"2"]) == 1
    assert [request.split()[0] for request in damaging.requests] == ["HEAD", "PUT"]
    assert (storage.read("first"), storage.read("second")) == (b"1", b"2")


@pytest.mark.usefixtures("fresh_clients")
def test_a_write_with_wrong_credentials_shows_no_signature(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-and-secret")
    storage = storage_at(gateway.bucket().location, gateway.bucket().conf)
    with pytest.raises(CheckpointUnavailableError, match=r"SignatureDoesNotMatch.* credentials of this pod") as raised:
        storage.write("one", [b"1"], replace=True)
    shown = str(raised.value)
    assert not [text for text in ("wrong-and-secret", "AWS4-HMAC", *CREDENTIALS.values()) if text in shown]


def test_a_write_waits_for_a_server_that_comes_back(gateway: Gateway, tmp_path: Path) -> None:
    assert gateway, "for the credentials"
    with Gateway(tmp_path) as restarting:
        bucket = restarting.bucket()
        bucket.storage.write("one", [b"1"])
        restarting.restart()
        assert bucket.storage.write("two", [b"2"]) == 1
        assert bucket.storage.names_behind("one") == ["two"]


def test_a_server_that_stays_away_is_named_with_a_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr("holdfast_runtime.state.durable.object_answers._AWAY_WAITS", (0.0, 0.0))
    service = S3Service(f"127.0.0.1:{free_ports(1)[0]}", encrypted=False)
    with pytest.raises(CheckpointUnavailableError, match=r"no answer about s3a://bucket/one, .* endpoint is right"):
        ObjectStorage(service, "bucket").write("one", [b"1"], replace=True)


def test_no_condition_is_promised_for_what_goes_in_parts(gateway: Gateway) -> None:
    storage, large = gateway.bucket().storage, (8 << 20) + 1
    storage.write("first", [b"1"])
    assert (storage.refuses_taken(1), storage.refuses_taken(large)) == (True, False)
    assert storage.write("large", [bytes(large)]) == large
    assert storage.write("large", [b"2"]) is None


def test_only_the_names_behind_one_are_listed(gateway: Gateway) -> None:
    storage = gateway.bucket().storage.below("a%2Ftask")
    assert storage.names_behind("") == []
    for name in ("delta-1", "delta-2", "fence-1", "snapshot-1"):
        storage.write(name, [b"1"])
    assert sorted(storage.names_behind("delta-1")) == ["delta-2", "fence-1", "snapshot-1"]
    assert sorted(storage.names_behind("")) == sorted(storage.names())


@pytest.mark.usefixtures("fresh_clients")
def test_keys_of_a_profile_reach_the_store(gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access, secret = CREDENTIALS.values()
    file = tmp_path / "credentials"
    file.write_text(f"[other]\naws_access_key_id = {access}\naws_secret_access_key = {secret}\n")
    for name in CREDENTIALS:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(file))
    monkeypatch.setenv("AWS_PROFILE", "other")
    storage = storage_at(gateway.bucket().location, gateway.bucket().conf)
    assert storage.write("one", [b"1"]) == 1
    assert storage.names_behind("") == ["one"]


@pytest.mark.usefixtures("fresh_clients")
def test_a_profile_that_names_a_program_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config"
    file.write_text("[default]\ncredential_process = /bin/secrets --of me\n")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID", raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(CheckpointUnavailableError, match=r"profile default has credential_process.*or a role"):
        ObjectStorage(S3Service("127.0.0.1:1"), "bucket").write("one", [b"1"])


@pytest.mark.usefixtures("fresh_clients")
def test_a_proxy_of_the_environment_is_not_used(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{free_ports(1)[0]}")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    storage = storage_at(gateway.bucket().location, gateway.bucket().conf)
    assert storage.write("one", [b"1"]) == 1


def test_a_fork_of_a_writer_is_told_so(gateway: Gateway) -> None:
    storage = gateway.bucket().storage
    storage.write("one", [b"1"])
    reader, writer = os.pipe()
    if not os.fork():
        try:
            storage.write("two", [b"2"])
        except HoldfastError as error:
            os.write(writer, str(error).encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as messages:
        assert "was forked from one that has written" in messages.read()


AMAZON, PLAIN = S3Service(), S3Service("minio:9000", encrypted=False)
ADDRESSES = {
    "https://bucket.s3.eu-west-1.amazonaws.com": (AMAZON, "bucket", "eu-west-1"),
    "https://s3.eu-west-1.amazonaws.com": (AMAZON, "my.bucket", "eu-west-1"),
    "https://bucket.s3.cn-north-1.amazonaws.com.cn": (AMAZON, "bucket", "cn-north-1"),
    "http://minio:9000": (PLAIN, "bucket", "us-east-1"),
    "https://bucket.minio:9000": (S3Service("minio:9000", virtual_hosts=True), "bucket", "us-east-1"),
}


@pytest.mark.parametrize("address", ADDRESSES)
def test_the_bucket_is_where_the_settings_say(address: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        monkeypatch.delenv(name, raising=False)
    service, bucket, region = ADDRESSES[address]
    assert service.address(bucket, region) == (address, bucket in address)


def test_an_endpoint_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://store:80/")
    assert AMAZON.address("bucket", "us-east-1") == ("http://store:80", False)
    assert PLAIN.address("bucket", "us-east-1") == ("http://minio:9000", False)
