"""Checkpoint and durable copies in a bucket of a real S3 server instead of a folder that all pods share."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cluster.cluster import Cluster
from tests.kafka.counted import Counted
from tests.kind.apps import App, counted_app, with_secret
from tests.kind.fed import Fed
from tests.kind.installed import Team
from tests.s3.gateway import CREDENTIALS, Bucket, Gateway


@pytest.fixture
def bucket(cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bucket]:
    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    with Gateway(tmp_path, cluster.outside()) as gateway:
        yield gateway.bucket()


def test_state_in_a_bucket_outlives_the_disks_of_all_pods(
    cluster: Cluster, team: Team, counted: Counted, bucket: Bucket
) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3"}, "stringData": CREDENTIALS}
    cluster.apply(secret, namespace=team.namespace)
    app = counted_app(cluster, team, counted)
    runtime = app.tree["spec"]["runtime"]
    runtime |= {
        "checkpoint": {"location": bucket.location},
        "driver": {**runtime["driver"], "podTemplate": with_secret("driver", "s3")},
        "executors": {**runtime["executors"], "podTemplate": with_secret("spark-kubernetes-executor", "s3")},
        "sparkConf": {**runtime["sparkConf"], **bucket.conf},
    }
    app.tree["spec"]["state"] = {"location": "Pod", "size": "512Mi"}
    with Fed(counted) as fed:
        app.apply()
        app.ready()
        fed.flows()
        _all_die(app)
        print(f"all pods killed -> a new row committed: {fed.flows():.1f} s")  # noqa: T201 - figures for `-s`
        app.until("Ready", "True")
        assert set(app.restored()) == set(app.where()), "nothing was left but the bucket"
        fed.settles()
    assert list(bucket.gateway.root.rglob("planned-*"))
    assert CREDENTIALS["AWS_SECRET_ACCESS_KEY"] not in app.driver_log()


def _all_die(app: App) -> None:
    app.kill_driver()
    for executor in app.executors():
        app.kill(executor)
