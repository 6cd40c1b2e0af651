"""In which topic an app has its changelog, and under which names."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast.spec.app import StreamApp
from holdfast.spec.defaults import with_defaults
from holdfast.spec.parse import parse_app
from holdfast.spec.runtime import AppDefaults, Changelog, Checkpoint
from holdfast_runtime.checkpoint.changelog import begin_changelog, changelog_of, with_changelog
from holdfast_runtime.state.durable.storage import DirectoryStorage
from tests.error_codes import has_code


def app(**runtime: Any) -> StreamApp:
    systems = [{"name": name, "kafka": {"bootstrapServers": f"{name}:9092"}} for name in ("one", "two")]
    spec = {
        "systems": systems,
        "streams": [{"name": "in", "system": "one"}],
        "steps": [{"name": "all", "from": ["in"], "filter": "true"}],
        "runtime": runtime,
    }
    head = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "ads"}}
    return parse_app({**head, "spec": spec})


def test_the_topic_is_in_the_system_that_the_spec_names() -> None:
    topic = changelog_of(
        app(checkpoint={"location": "s3a://bucket", "changelog": {"system": "two", "partitions": 3}}), None
    )
    assert topic is not None
    assert (topic.title, topic.partitions) == ("topic ads.holdfast.changelog of Kafka system two", 3)
    storage = with_changelog(DirectoryStorage(Path("/shared")), topic, "team-a").below("1")
    assert storage.path("delta-1") == f"{topic.title}: team-a/ads/1/delta-1"
    assert storage.path("snapshot-1") == "/shared/1/snapshot-1"


def test_without_a_changelog_all_is_at_the_location() -> None:
    shared = DirectoryStorage(Path("/shared"))
    assert changelog_of(app(checkpoint={"location": "s3a://bucket"}), None) is None
    assert with_changelog(shared, None, "team-a") is shared


def test_a_default_in_a_system_the_app_lacks_is_refused() -> None:
    checkpoint = Checkpoint(location="s3a://bucket", changelog=Changelog(system="events"))
    with pytest.raises(UserActionError, check=has_code("ChangelogSystemMissingError"), match="Kafka system events"):
        changelog_of(with_defaults(app(), AppDefaults(checkpoint=checkpoint)), None)


def test_a_run_without_a_changelog_gets_none_later(tmp_path: Path) -> None:
    run = DirectoryStorage(tmp_path)
    begin_changelog(run, None)
    run.below("query").write("planned-1", [b"1"])
    topic = changelog_of(app(checkpoint={"location": "s3a://bucket", "changelog": {"system": "one"}}), None)
    with pytest.raises(UserActionError, check=has_code("ChangelogDiffersError"), match="began without a changelog"):
        begin_changelog(run, topic)
