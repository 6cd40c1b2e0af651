from ipaddress import ip_address

import pytest

from holdfast.errors import UserActionError
from holdfast_operator import main
from holdfast_operator.brokers.addresses import AddressInvalidError, AddressPattern, AddressRule, Server, servers
from holdfast_operator.wiring import OperatorOptions
from tests.error_codes import has_code


def rule(*patterns: str) -> AddressRule:
    return AddressRule(tuple(map(AddressPattern.parse, patterns)))


NEVER = (
    "127.0.0.1", "127.255.0.9", "0.0.0.1", "0.1.2.3", "169.254.169.254", "169.254.170.2", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "100.100.100.200", "168.63.129.16", "192.0.0.192", "::", "::1", "fe80::1", "fe80::1%eth0",
    "febf::9", "ff02::1", "fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254", "::ffff:127.0.0.1", "::ffff:169.254.169.254",
    "::127.0.0.1", "64:ff9b::169.254.169.254", "64:ff9b:1::127.0.0.1", "2002:7f00:1::", "2002:a9fe:a9fe::1",
)  # fmt: skip
OTHERS = ("10.0.0.7", "192.168.1.1", "172.20.0.1", "100.64.0.9", "8.8.8.8", "2001:db8::1", "fd00::1", "::ffff:10.0.0.7")


@pytest.mark.parametrize("text", NEVER)
@pytest.mark.parametrize("patterns", [(), ("*",), ("0.0.0.0/0", "::/0"), ("127.0.0.0/8", "kafka")])
def test_host_and_metadata_addresses_are_never_asked(text: str, patterns: tuple[str, ...]) -> None:
    assert not rule(*patterns).admits(Server("kafka", 9092), ip_address(text))


@pytest.mark.parametrize("text", OTHERS)
def test_without_patterns_any_other_address_and_port_is_asked(text: str) -> None:
    assert rule().admits(Server("kafka", 22), ip_address(text))
    assert rule().may_admit(Server("kafka", 22))


TABLE = (
    ("*.kafka.svc:9092", "a.kafka.svc", 9092, "10.0.0.7", True),
    ("*.kafka.svc:9092", "A.B.Kafka.svc.", 9092, "10.0.0.7", True),
    ("*.kafka.svc:9092", "a.kafka.svc", 9093, "10.0.0.7", False),
    ("*.kafka.svc:9092", "a.kafka.svc.evil.example", 9092, "10.0.0.7", False),
    ("*.kafka.svc", "kafka.svc", 9092, "10.0.0.7", False),
    ("kafka:9092-9098", "kafka", 9098, "10.0.0.7", True),
    ("kafka:9092-9098", "kafka", 9099, "10.0.0.7", False),
    ("10.0.0.0/8:9092", "whatever", 9092, "10.9.9.9", True),
    ("10.0.0.0/8:9092", "whatever", 9092, "11.0.0.1", False),
    ("10.0.0.0/8", "whatever", 1, "::ffff:10.9.9.9", True),
    ("10.0.0.0/8", "whatever", 1, "2002:a00:1::", False),
    ("10.0.0.7", "whatever", 1, "10.0.0.7", True),
    ("[fd00::/8]:9092", "whatever", 9092, "fd12::1", True),
    ("[fd00::/8]:9092", "whatever", 9093, "fd12::1", False),
    ("fd00::/8", "whatever", 9093, "fd12::1", True),
    ("fd00::/8", "whatever", 9093, "10.0.0.7", False),
)


@pytest.mark.parametrize(("pattern", "host", "port", "address", "admitted"), TABLE)
def test_a_pattern_matches_the_written_name_or_the_resolved_address(
    pattern: str, host: str, port: int, address: str, admitted: bool
) -> None:
    assert rule(pattern).admits(Server(host, port), ip_address(address)) is admitted


def test_one_pattern_of_several_is_enough() -> None:
    address_rule = rule("kafka:9092", "10.0.0.0/8:9093")
    assert address_rule.admits(Server("kafka", 9092), ip_address("192.168.0.1"))
    assert address_rule.admits(Server("other", 9093), ip_address("10.0.0.1"))
    assert not address_rule.admits(Server("other", 9092), ip_address("10.0.0.1"))


@pytest.mark.parametrize(
    ("patterns", "server", "possible"),
    [
        (("kafka",), Server("other", 9092), False),
        (("kafka:9092",), Server("kafka", 22), False),
        (("10.0.0.0/8",), Server("11.0.0.1", 9092), False),
        (("10.0.0.0/8",), Server("10.0.0.1", 9092), True),
        ((), Server("127.0.0.1", 9092), False),
        ((), Server("::1", 9092), False),
        # What a name resolves to must not be told: it may be, until it was looked up.
        (("10.0.0.0/8",), Server("other", 9092), True),
        ((), Server("localhost", 9092), True),
        ((), Server("127.1", 9092), True),
        (("10.0.0.0/8:9092",), Server("other", 22), False),
    ],
)
def test_whether_values_may_admit_a_server_needs_no_lookup(
    patterns: tuple[str, ...], server: Server, possible: bool
) -> None:
    assert rule(*patterns).may_admit(server) is possible


@pytest.mark.parametrize(
    "text",
    ["", ":9092", "kafka:x", "kafka:0", "kafka:65536", "kafka:9-8", "kafka:1-", "10.0.0.0/33", "a::b::c"],
)
def test_a_pattern_that_can_not_be_read_is_refused(text: str) -> None:
    with pytest.raises(AddressInvalidError, match=r"\".*\""):
        AddressPattern.parse(text)


def test_patterns_of_the_command_line_limit_what_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served: list[OperatorOptions] = []

    async def serve(options: OperatorOptions) -> None:
        served.append(options)

    monkeypatch.setattr(main, "serve", serve)
    main.main(["--image=i", "--kafka-allowed=*.kafka.svc:9092", "--kafka-allowed=10.0.0.0/8:9092"])
    main.main(["--image=i"])
    for options, refusal in zip(served, ("asks no brokers at other:9", "asks no brokers at 127.0.0.1:9"), strict=True):
        with pytest.raises(UserActionError, match=refusal, check=has_code("BrokerNotAdmittedError")):
            options.ask("events", refusal.rpartition(" ")[2], {}, ["clicks"])
    with pytest.raises(SystemExit):
        main.main(["--image=i", "--kafka-allowed=kafka:x"])
    assert '"kafka:x": after the colon stands a port' in capsys.readouterr().err


def test_brokers_are_read_as_the_client_reads_them() -> None:
    brokers = servers("a:1, b ,SASL_SSL://c:3,[fd00::1]:4,fd00::2,,")
    assert brokers == [Server("a", 1), Server("b", 9092), Server("c", 3), Server("fd00::1", 4), Server("fd00::2", 9092)]
    assert [str(one) for one in brokers[3:]] == ["[fd00::1]:4", "[fd00::2]:9092"]


@pytest.mark.parametrize("text", ["", ",", "a:b", "a:99999", ":9092", "a:1,b:²"])
def test_brokers_that_can_not_be_read_are_refused(text: str) -> None:
    with pytest.raises(AddressInvalidError, match="bootstrapServers"):
        servers(text)
