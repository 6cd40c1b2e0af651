"""Objects in a bucket of a real server."""

import os
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast_runtime.checkpoint.directories import storage_at
from holdfast_runtime.state.durable.object_service import S3Service
from holdfast_runtime.state.durable.object_storage import ObjectStorage
from holdfast_runtime.state.errors import CheckpointUnavailableError
from tests.s3.gateway import CREDENTIALS, Bucket, Gateway


@pytest.fixture
def bucket(gateway: Gateway) -> Bucket:
    return gateway.bucket()


def gone(storage: ObjectStorage, *names: str) -> list[str]:
    return list(storage.delete(names))


def test_writes_and_deletions_are_visible_at_once(bucket: Bucket) -> None:
    storage = bucket.storage
    assert (storage.names(), storage.read("one")) == ([], None)
    assert storage.write("one", [b"a", memoryview(b"bc")]) == 3
    assert (storage.names(), storage.read("one")) == (["one"], b"abc")
    assert gone(storage, "one", "never there") == ["one", "never there"]
    assert (storage.names(), storage.read("one")) == ([], None)


def test_a_name_taken_keeps_its_object_unless_replaced(bucket: Bucket) -> None:
    storage = bucket.storage
    storage.write("one", [b"first"])
    assert storage.write("one", [b"second"]) is None
    assert storage.read("one") == b"first"
    assert storage.write("one", [b"third"], replace=True) == 5
    assert storage.read("one") == b"third"


def test_names_below_are_not_names_here(bucket: Bucket) -> None:
    storage = bucket.storage
    storage.below("task", "more").write("deep", [b"1"])
    storage.below("task").write("shallow", [b"2"])
    assert storage.names() == []
    assert storage.below("task").names() == ["shallow"]
    assert gone(storage.below("task"), "shallow") == ["shallow"]
    # What is left of a directory is no object.
    assert storage.below("task").names() == []
    assert storage.below("task", "more").names() == ["deep"]


def test_more_objects_than_one_answer_lists_are_listed_and_deleted(bucket: Bucket) -> None:
    storage, names = bucket.storage, [f"delta-{number:020}" for number in range(1234)]
    # As the server keeps them: writing so many through it takes a while.
    folder = bucket.folder(storage.directory)
    folder.mkdir(parents=True)
    for name in names:
        (folder / name).touch()
    assert sorted(storage.names()) == names
    assert bucket.gateway.asked(bucket)["ListObjectsV2"] == 2
    assert len(gone(storage, *names[:300])) == 300
    assert sorted(storage.names()) == names[300:]


@pytest.mark.parametrize("name", ["%2Etask", "task%2F1", "a b", "grün", "a+b", "a=b&c"])
def test_any_name_that_folders_have_will_do(bucket: Bucket, name: str) -> None:
    storage = bucket.storage.below(name)
    storage.write("one", [b"1"])
    assert (storage.names(), storage.read("one"), bucket.storage.names()) == (["one"], b"1", [])


def test_a_large_object_goes_and_comes_in_parts(bucket: Bucket) -> None:
    storage, pieces = bucket.storage, [os.urandom(4 << 20) for _ in range(7)]
    assert storage.write("large", pieces) == 28 << 20
    with storage.reading("large") as read:
        assert [read(4 << 20) for _ in pieces] == pieces
        assert read(1) == b""
    assert bucket.gateway.asked(bucket)["CompleteMultipartUpload"] == 1


def test_an_object_whose_writer_breaks_off_is_not_there(bucket: Bucket) -> None:
    def pieces() -> Iterator[bytes]:
        yield b"x" * (11 << 20)
        message = "the disk it is read from broke"
        raise OSError(message)

    with pytest.raises(CheckpointUnavailableError, match="broke"):
        bucket.storage.write("torn", pieces())
    assert bucket.storage.names() == []


def test_a_storage_travels_without_its_client_and_without_credentials(bucket: Bucket) -> None:
    bucket.storage.write("one", [b"1"])
    packed = pickle.dumps(bucket.storage)
    assert not [secret for secret in CREDENTIALS.values() if secret.encode() in packed]
    assert pickle.loads(packed).read("one") == b"1"  # noqa: S301 - made above


def test_wrong_credentials_are_refused_with_a_cure_and_not_shown(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong-and-secret")
    # Not the service of other tests: their client would be used.
    conf = {**gateway.bucket().conf, "spark.hadoop.fs.s3a.endpoint.region": "us-east-1"}
    storage = storage_at(gateway.bucket().location, conf)
    with pytest.raises(
        CheckpointUnavailableError, match=r"SIGNATURE_DOES_NOT_MATCH.* credentials of this pod"
    ) as raised:
        storage.names()
    assert "wrong-and-secret" not in str(raised.value)


def test_a_missing_bucket_is_named_by_the_first_write(gateway: Gateway) -> None:
    storage = storage_at("s3a://other/path", gateway.bucket().conf)
    assert (storage.names(), storage.read("one")) == ([], None)
    with pytest.raises(CheckpointUnavailableError, match=r"refuses s3a://other/path/one .*NoSuchBucket.*bucket is"):
        storage.write("one", [b"1"])


@pytest.mark.usefixtures("gateway")  # for the credentials
def test_a_server_that_comes_back_within_seconds_is_waited_for(tmp_path: Path) -> None:
    with Gateway(tmp_path) as gateway:
        bucket = gateway.bucket()
        bucket.storage.write("one", [b"1"])
        gateway.restart()
        assert bucket.storage.read("one") == b"1"


def test_one_object_costs_what_it_must(bucket: Bucket) -> None:
    storage, requests = bucket.storage, bucket.gateway.asked
    storage.write("one", [b"1"], replace=True)
    assert requests(bucket) == {"PutObject": 1}
    storage.names()
    assert requests(bucket) == {"PutObject": 1, "ListObjectsV2": 1}
    bucket.gateway.bucket().storage.write("first", [b"1"])  # then it is known that names are refused
    storage.write("two", [b"2"])
    assert requests(bucket) == {"PutObject": 2, "ListObjectsV2": 1}
    storage.names_behind("one")
    assert requests(bucket) == {"PutObject": 2, "ListObjectsV2": 2}


def test_a_process_opens_one_client_for_each_bucket(bucket: Bucket) -> None:
    service = bucket.storage.service
    assert service.opened("checkpoints") is S3Service(service.endpoint, encrypted=False).opened("checkpoints")
