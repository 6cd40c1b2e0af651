"""Who reaches an app, and what it reaches, by the NetworkPolicies that the operator makes of its spec."""

from dataclasses import replace
from typing import Any

import pytest

from holdfast.spec.app import StreamApp
from holdfast.spec.parse import parse_app
from holdfast_operator.decide.decision import StartDriver
from holdfast_operator.manifests.driver_pod import AppOwner, Installation, driver_pod, executor_template
from holdfast_operator.manifests.network_policy import AppNetwork, network_policies, read_app_network, store_port
from holdfast_runtime.checkpoint.directories import storage_at
from holdfast_runtime.state.durable.object_storage import ObjectStorage
from tests.operator.apps import tree
from tests.operator.reach import End, Tree, reaches

OWNER = AppOwner("ads", "apps", "uid-of-app")
RELEASE = Installation("image")
SPARK, PAGES, API, DNS = 38001, 4040, 6443, 53
METADATA, OUTSIDE = End("169.254.169.254"), End("203.0.113.7")
POD = End("10.244.3.9", "kafka", {"app": "broker"})
NAMES = End("10.244.0.2", "kube-system", {"k8s-app": "kube-dns"})
S3A = "spark.hadoop.fs.s3a."


ANYWHERE: tuple[Tree, ...] = (
    {"ipBlock": {"cidr": "0.0.0.0/0", "except": ["169.254.0.0/16"]}},
    {"ipBlock": {"cidr": "::/0", "except": ["fe80::/10", "fd00:ec2::/32"]}},
    {"namespaceSelector": {}},
)
DEFAULT = AppNetwork(kafka_ports=(9092, 9093, 9094, 9095, 9096, 9098), brokers=ANYWHERE, stores=ANYWHERE)
"""What the chart says (tests/chart/test_templates.py)."""


def app(name: str = "ads", **spec: Any) -> StreamApp:
    made = tree(**spec)
    made["metadata"]["name"] = name
    return parse_app(made)


def with_brokers(servers: str, config: dict[str, str] | None = None) -> StreamApp:
    return app(systems=[{"name": "events", "kafka": {"bootstrapServers": servers, "config": config or {}}}])


def with_store(location: str, **conf: str) -> StreamApp:
    settings = {S3A + name.replace("_", "."): value for name, value in conf.items()}
    return app(runtime={"checkpoint": {"location": location}, "sparkConf": settings})


def policies(of: StreamApp, network: AppNetwork = DEFAULT, namespace: str = "apps") -> list[tuple[str, Tree]]:
    return [(namespace, made) for made in network_policies(of, OWNER, {}, network)]


def pods(of: StreamApp, namespace: str = "apps") -> tuple[End, End]:
    """Driver and executor, with the labels that they really get; Spark adds the executor's role."""
    driver = driver_pod(of, 1, OWNER, RELEASE)["metadata"]["labels"]
    executor = executor_template(StartDriver(of, 1), OWNER, RELEASE)["metadata"]["labels"]
    return End("10.244.1.1", namespace, driver), End("10.244.2.2", namespace, {**executor, "spark-role": "executor"})


def reached(of: StreamApp, target: End, *ports: int, network: AppNetwork = DEFAULT) -> list[int]:
    """Those of the ports that executors reach."""
    return [port for port in ports if reaches(policies(of, network), pods(of)[1], target, port)]


def test_pods_of_an_app_reach_each_other_on_any_port() -> None:
    driver, executor = pods(app())
    for source, target in ((driver, executor), (executor, driver), (executor, executor)):
        assert reaches(policies(app()), source, target, SPARK)


@pytest.mark.parametrize("egress", ["restricted", "open"])
def test_nobody_else_reaches_them(egress: str) -> None:
    network = replace(DEFAULT, open=egress == "open")
    neighbour, namesake = app("views"), app()
    known = [
        *policies(app(), network),
        *policies(neighbour, network),
        *policies(namesake, network, namespace="others"),
    ]
    strangers = [*pods(neighbour), *pods(namesake, "others"), OUTSIDE, POD, End("10.244.1.7", "apps")]
    for stranger in strangers:
        for target in pods(app()):
            assert not any(reaches(known, stranger, target, port) for port in (SPARK, PAGES))


def test_the_driver_reaches_the_api_server_and_executors_do_not() -> None:
    driver, executor = pods(app())
    assert reaches(policies(app()), driver, OUTSIDE, API)
    assert not reaches(policies(app()), executor, OUTSIDE, API)


def test_executors_that_are_given_a_token_reach_the_api_server() -> None:
    template = {"podTemplate": {"spec": {"automountServiceAccountToken": True}}}
    runtime = {"checkpoint": {"location": "s3a://bucket/ads"}, "executors": template}
    assert reached(app(runtime=runtime), OUTSIDE, API) == [API]


def test_names_are_asked_for_wherever_they_are_known() -> None:
    for pod in pods(app()):
        for protocol in ("UDP", "TCP"):
            assert reaches(policies(app()), pod, NAMES, DNS, protocol)
            assert reaches(policies(app()), pod, End("169.254.20.10"), DNS, protocol)  # a cache on the node


@pytest.mark.parametrize("target", [OUTSIDE, POD, End("2001:db8::7")], ids=["outside", "a pod", "IPv6"])
def test_brokers_are_reached_outside_and_inside_of_the_cluster(target: End) -> None:
    assert reached(app(), target, 9092, 22, 80, 5432, 8080) == [9092]


@pytest.mark.parametrize(
    ("servers", "ports"),
    [
        ("a:19092", {19092}),
        ("a:19092,b:19093, c:19092 ", {19092, 19093}),
        ("a", {9092}),
        ("SASL_SSL://a:19092", {19092}),
        ("[2001:db8::1]:19092", {19092}),
        ("a:19092,b:many", {19092}),
        ("a:99999", set()),
        ("a:0", {9092}),
        ("[a,b:19092", {19092}),
    ],
)
def test_broker_ports_are_those_of_spec_and_release(servers: str, ports: set[int]) -> None:
    bare = AppNetwork()
    assert set(reached(with_brokers(servers), OUTSIDE, *range(9090, 9095), 19092, 19093, network=bare)) == ports
    more = AppNetwork(kafka_ports=(9094,))
    assert set(reached(with_brokers(servers), OUTSIDE, 9092, 9094, 19092, 19093, network=more)) == ports | {9094}


def test_an_app_without_kafka_reaches_no_brokers() -> None:
    kinds = [{"name": "events", "generator": {"function": "a:b"}}, {"name": "here", "log": {}}]
    streams = [
        {"name": "clicks", "system": "events", "key": ["k"], "schema": "k STRING", "partitions": 4},
        {"name": "out", "system": "here", "key": ["k"], "partitions": 4},
    ]
    assert reached(app(systems=kinds, streams=streams), OUTSIDE, 9092, 443) == [443]


@pytest.mark.parametrize(
    ("url", "port"), [("https://login/token", 443), ("http://login/token", 80), ("https://login:8443/token", 8443)]
)
def test_a_login_that_gives_tokens_is_reached(url: str, port: int) -> None:
    asks = with_brokers("kafka:9092", {"sasl.oauthbearer.token.endpoint.url": url})
    stays = asks.model_copy(update={"spec": asks.spec.model_copy(update={"runtime": disk().spec.runtime})})
    assert reached(stays, OUTSIDE, 80, 443, 8443) == [port]


def test_the_registry_of_a_system_is_reached() -> None:
    kafka = {"bootstrapServers": "kafka:9092", "registry": {"url": "https://registry:8081/v7"}}
    asks = app(systems=[{"name": "events", "kafka": kafka}])
    stays = asks.model_copy(update={"spec": asks.spec.model_copy(update={"runtime": disk().spec.runtime})})
    assert reached(stays, OUTSIDE, 80, 443, 8081) == [8081]


def disk() -> StreamApp:
    return with_store("file:///checkpoints")


STORES: list[tuple[StreamApp, int | None]] = [
    (with_store("s3a://bucket/ads"), 443),
    (with_store("s3://bucket/ads"), 443),
    (with_store("s3a://bucket/ads", connection_ssl_enabled="False"), 80),
    (with_store("s3a://bucket/ads", endpoint="minio.storage"), 443),
    (with_store("s3a://bucket/ads", endpoint="minio.storage", connection_ssl_enabled="false"), 80),
    (with_store("s3a://bucket/ads", endpoint="minio.storage:9000"), 9000),
    (with_store("s3a://bucket/ads", endpoint="http://minio.storage"), 80),
    (with_store("s3a://bucket/ads", endpoint="https://minio.storage/", connection_ssl_enabled="false"), 443),
    (with_store("s3a://bucket/ads", endpoint="https://minio.storage:9000/"), 9000),
    (with_store("s3a://bucket/ads", endpoint="a:9000", bucket_bucket_endpoint=" b:9001 "), 9001),
    (with_store("s3a://bucket/ads", endpoint="a:9000", bucket_other_endpoint="b:9001"), 9000),
    (disk(), None),
]


@pytest.mark.parametrize(("stored", "port"), STORES)
def test_a_checkpoint_store_is_reached_and_for_a_folder_nothing(stored: StreamApp, port: int | None) -> None:
    assert store_port(stored) == port
    assert reached(stored, OUTSIDE, 80, 443, 9000, 9001) == ([] if port is None else [port])


@pytest.mark.parametrize(("stored", "port"), STORES)
def test_the_port_of_the_store_is_the_drivers(stored: StreamApp, port: int | None) -> None:
    runtime = stored.spec.runtime
    assert runtime.checkpoint is not None
    storage = storage_at(runtime.checkpoint.location, runtime.spark_conf)
    if not isinstance(storage, ObjectStorage):
        assert port is None
        return
    named = (storage.service.endpoint or "amazon").rpartition(":")[2]
    assert port == (int(named) if named.isdigit() else 443 if storage.service.encrypted else 80)


def test_a_store_whose_port_is_no_port_gets_no_rule() -> None:
    for endpoint in ("minio:many", "minio:70000", "[minio"):
        assert store_port(with_store("s3a://bucket/ads", endpoint=endpoint)) is None
    assert store_port(with_store("s3a://[bucket/ads")) == 443  # the driver refuses it
    assert store_port(app(runtime={})) is None


def test_no_spec_opens_the_way_to_the_credentials_of_nodes() -> None:
    asks = with_brokers("169.254.169.254:80", {"sasl.oauthbearer.token.endpoint.url": "http://169.254.169.254/token"})
    stored = with_store("s3a://bucket/ads", endpoint="http://169.254.169.254")
    for target in (METADATA, End("169.254.170.23"), End("fd00:ec2::254")):
        for of in (asks, stored):
            assert reached(of, target, 80) == []
    assert reached(stored, OUTSIDE, 80) == [80]


def test_where_brokers_and_stores_are_can_be_said() -> None:
    block: Tree = {"ipBlock": {"cidr": "198.51.100.0/24", "except": []}}
    network = AppNetwork(brokers=(block,), stores=DEFAULT.stores)
    assert reached(app(), End("198.51.100.3"), 9092, 443, network=network) == [9092, 443]
    assert reached(app(), OUTSIDE, 9092, 443, network=network) == [443]


def test_rules_of_the_installation_are_added() -> None:
    ways: dict[str, Any] = {
        name: ({"ports": [{"protocol": "TCP", "port": port}]},) for name, port in (("egress", 8080), ("ingress", PAGES))
    }
    network = replace(DEFAULT, **ways)
    assert reached(app(), POD, 8080, 8081, network=network) == [8080]
    for target in pods(app()):
        assert reaches(policies(app(), network), POD, target, PAGES)
        assert not reaches(policies(app(), network), POD, target, SPARK)


def test_open_means_everything_also_where_an_attempt_before_was_restricted() -> None:
    network = replace(DEFAULT, open=True)
    left = policies(app())[1]
    for known in (policies(app(), network), [*policies(app(), network), left]):
        for pod in pods(app()):
            assert all(reaches(known, pod, target, 80) for target in (OUTSIDE, POD, METADATA))


def test_each_app_owns_policies_of_its_own() -> None:
    names = set()
    for name in ("ads", "ads-api", "api", "holdfast"):
        for made in network_policies(app(name), OWNER, {"team": "a"}, DEFAULT):
            assert made["metadata"]["ownerReferences"] == [OWNER.reference()]
            assert made["metadata"]["labels"].items() >= {"team": "a", "holdfast.dev/app": name}.items()
            names.add(made["metadata"]["name"])
    assert len(names) == 8


@pytest.mark.parametrize("text", ["", "{", "[]", '{"dns_ports": ["many"]}', '{"dns": [53]}', '{"open": "perhaps"}'])
def test_an_unreadable_setting_stops_the_operators_start(text: str) -> None:
    with pytest.raises(ValueError, match="AppNetwork"):
        read_app_network(text)
