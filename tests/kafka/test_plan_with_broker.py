"""`holdfast plan` asks a real broker for the counts nobody gave."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast_cli.main import main
from tests.kafka.broker import PASSWORD, USER, Broker, free_ports
from tests.kafka.test_partition_counts import allow_describe
from tests.waiting import patience

pytestmark = pytest.mark.kafka


def write_app(bootstrap: str, folder: Path, *, views: str = "plan.views", **login: Any) -> str:
    stream = {"system": "events", "key": ["k"], "schema": "k STRING, ts TIMESTAMP", "eventTime": {"column": "ts"}}
    join = {"by": ["k"], "within": "10m", "select": ["k", "left.ts"]}
    spec = {
        "systems": [{"name": "events", "kafka": {"bootstrapServers": bootstrap, **login}}],
        "streams": [
            {"name": "clicks", "topic": "plan.clicks", **stream},
            {"name": "views", "topic": views, **stream},
        ],
        "steps": [{"name": "j", "from": ["clicks", "views"], "join": join}],
    }
    path = folder / "app.json"
    tree = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "a"}, "spec": spec}
    path.write_text(json.dumps(tree), encoding="utf-8")
    return str(path)


def test_counts_come_from_the_topics(broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broker.create_topic("plan.clicks", 6)
    app = write_app(broker.bootstrap, tmp_path)
    assert main(["plan", app]) == 1
    assert "topic plan.views of stream views does not exist in system events" in capsys.readouterr().out
    broker.create_topic("plan.views", 3)
    assert main(["plan", app]) == 1
    out = capsys.readouterr().out
    assert "PartitionCountMismatch at j" in out
    assert "its topic plan.clicks has them" in out
    assert main(["plan", app, "--partitions", "views=6"]) == 0


@pytest.mark.parametrize("command", ["plan", "run"])
def test_a_mistyped_input_is_named_with_the_nearest_topics(
    broker: Broker, tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    for topic in (f"near.{command}.clicks", f"near.{command}.views", f"near.{command}.views-2"):
        broker.create_topic(topic, 1)
    app = write_app(broker.bootstrap, tmp_path, views=f"near.{command}.veiws")
    folder = [] if command == "plan" else ["--data", str(tmp_path / "data")]
    assert main([command, app, "-o", "json", *folder]) == 1
    out = capsys.readouterr().out
    assert f"does not exist in system events; did you mean near.{command}.views or near.{command}.views-2" in out
    with broker.admin() as admin:
        assert f"near.{command}.veiws" not in admin.list_topics(timeout=patience(30)).topics


def test_an_unreachable_broker_is_named_and_exits_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bootstrap = f"127.0.0.1:{free_ports(1)[0]}"
    assert main(["plan", write_app(bootstrap, tmp_path), "--timeout", "1"]) == 2
    err = capsys.readouterr().err
    assert "events" in err
    assert bootstrap in err


def test_with_all_counts_given_no_broker_is_asked(tmp_path: Path) -> None:
    app = write_app(f"127.0.0.1:{free_ports(1)[0]}", tmp_path)
    assert main(["plan", app, "--partitions", "clicks=4", "--partitions", "views=4"]) == 0


def test_a_run_asks_with_the_login_it_runs_with(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    secret = tmp_path / "data" / "secrets" / "kafka-auth"
    secret.mkdir(parents=True)
    (secret / "sasl.username").write_text(USER)
    (secret / "sasl.password").write_text(PASSWORD)
    config = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN"}
    with Broker(sasl=True) as guarded:
        for topic, partitions in (("plan.clicks", 6), ("plan.views", 3)):
            guarded.create_topic(topic, partitions)
            allow_describe(guarded, topic)
        app = write_app(guarded.sasl_bootstrap, tmp_path, config=config, secretName="kafka-auth")
        assert main(["run", app, "--data", str(tmp_path / "data")]) == 1
    assert "PartitionCountMismatch at j" in capsys.readouterr().out
