"""What an address names, and what settings say about it."""

from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.checkpoint.directories import storage_at
from holdfast_runtime.state.durable.object_service import S3Service
from holdfast_runtime.state.durable.object_storage import ObjectStorage
from holdfast_runtime.state.durable.storage import DirectoryStorage
from tests.error_codes import has_code

S3A = "spark.hadoop.fs.s3a."


@pytest.mark.parametrize(
    ("location", "storage"),
    [
        ("file:///shared/check%20points", DirectoryStorage(Path("/shared/check points"))),
        ("s3a://bucket", ObjectStorage(S3Service(), "bucket")),
        ("s3a://bucket/", ObjectStorage(S3Service(), "bucket")),
        ("s3://my.bucket/apps//of/", ObjectStorage(S3Service(), "my.bucket", "apps/of")),
        ("s3a://bucket/check%20points", ObjectStorage(S3Service(), "bucket", "check points")),
    ],
)
def test_an_address_names_a_storage(location: str, storage: object) -> None:
    assert storage_at(location, {}) == storage


@pytest.mark.parametrize(
    ("conf", "service"),
    [
        ({}, S3Service()),
        ({"endpoint": "minio:9000"}, S3Service("minio:9000")),
        ({"endpoint": "http://minio:9000/"}, S3Service("minio:9000", encrypted=False)),
        ({"endpoint": "https://minio", "connection.ssl.enabled": "false"}, S3Service("minio")),
        ({"endpoint": "minio", "connection.ssl.enabled": "FALSE"}, S3Service("minio", encrypted=False)),
        ({"endpoint.region": "eu-central-1"}, S3Service(region="eu-central-1")),
        ({"endpoint": "minio", "path.style.access": "true"}, S3Service("minio")),
        ({"endpoint": "minio", "path.style.access": "false"}, S3Service("minio", virtual_hosts=True)),
        ({"endpoint": "other", "bucket.mine.endpoint": "minio"}, S3Service("minio")),
        ({"bucket.yours.endpoint": "minio"}, S3Service()),
    ],
)
def test_settings_of_s3a_say_how_an_object_store_is_reached(conf: dict[str, str], service: S3Service) -> None:
    storage = storage_at("s3a://mine/apps", {S3A + name: value for name, value in conf.items()})
    assert storage == ObjectStorage(service, "mine", "apps")


@pytest.mark.parametrize(
    ("location", "why"),
    [
        ("gs://bucket/apps", "object stores that speak S3"),
        ("hdfs://name/apps", "or in a folder that all pods mount"),
        ("file://host/apps", "it names a host"),
        ("s3a:///apps", "has no bucket"),
        ("s3a://bucket:9000/apps", "has no bucket"),
        ("s3a://bucket/../apps", "knows no . and .."),
    ],
)
def test_an_address_of_no_storage_is_refused_with_the_cure(location: str, why: str) -> None:
    with pytest.raises(UserActionError, match=why, check=has_code("CheckpointLocationError")):
        storage_at(location, {})


def test_credentials_in_an_address_are_refused_and_not_told() -> None:
    with pytest.raises(UserActionError, match="has no bucket", check=has_code("CheckpointLocationError")) as refused:
        storage_at("s3a://AKIA:hidden@bucket/apps", {})
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("name", ["access.key", "secret.key", "session.token", "bucket.mine.secret.key"])
def test_credentials_in_a_spec_are_refused_by_setting_alone(name: str) -> None:
    with pytest.raises(
        UserActionError,
        match=rf"{S3A}{name}.* into a Secret.* pod templates",
        check=has_code("CheckpointLocationError"),
    ) as refused:
        storage_at("s3a://mine/apps", {S3A + name: "hidden"})
    assert "hidden" not in str(refused.value)


def test_a_setting_that_is_neither_true_nor_false_is_named() -> None:
    with pytest.raises(
        UserActionError,
        match=r"path\.style\.access is yes; write true or false",
        check=has_code("CheckpointLocationError"),
    ):
        storage_at("s3a://mine", {f"{S3A}endpoint": "minio", f"{S3A}path.style.access": "yes"})
