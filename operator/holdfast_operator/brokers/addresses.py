"""Broker addresses: patterns of those that the operator may contact, and networks that it never contacts.

The author of a StreamApp names the brokers, and the operator connects from inside the cluster. Pure: the caller
resolves names, and each resolved address is checked before it is connected to. What a name resolves to must not change
the answer in a way that the author could notice.
"""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network

NEVER: tuple[_Network, ...] = tuple(
    ip_network(network)
    for network in (
        # This host and this link.
        "0.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",  # includes the metadata service of most clouds
        "224.0.0.0/3",  # multicast, reserved, broadcast
        "::/127",
        "fe80::/10",
        "ff00::/8",
        # Metadata services of clouds, which give out credentials of the machine.
        "100.100.100.200/32",  # Alibaba
        "168.63.129.16/32",  # Azure
        "192.0.0.192/32",  # Oracle
        "fd00:ec2::/32",  # Amazon: metadata, names, time
        "fd20:ce::254/128",  # Google
    )
)
_CARRYING = (IPv6Network("::/96"), IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
"""IPv6 networks whose addresses embed an IPv4 address in their last bits."""


class AddressInvalidError(Exception):
    """A broker address or an address pattern that can't be parsed."""


@dataclass(frozen=True, slots=True)
class Server:
    """A broker as the spec names it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """One entry of `kafka.allowed`."""

    host: str | _Network
    """A host name in which `*` stands for any characters, or a network."""
    ports: range

    @classmethod
    def parse(cls, text: str) -> "AddressPattern":
        """Parse `host`, `host:port` or `host:first-last`; the host is a name with `*`, an address or a network."""
        host, ports = _host_and_port(text)
        first, dash, last = ports.partition("-")
        numbers = (first, last if dash else first)
        if ports and not all(_is_port(one) for one in numbers):
            message = f'"{text}": after the colon stands a port, or two with a dash between them'
            raise AddressInvalidError(message)
        port_range = range(int(numbers[0]), int(numbers[1]) + 1) if ports else range(1, 65536)
        if not host or not port_range:
            message = f'"{text}" admits nothing: write host, host:port or host:first-last'
            raise AddressInvalidError(message)
        try:
            return cls(ip_network(host, strict=False), port_range)
        except ValueError:
            pass
        if "/" in host or ":" in host:
            message = f'"{text}" is no network; IPv6 stands in brackets where a port follows'
            raise AddressInvalidError(message)
        return cls(_name(host), port_range)


@dataclass(frozen=True, slots=True)
class AddressRule:
    """The addresses that the operator's values admit. Without patterns: all but `never`."""

    patterns: tuple[AddressPattern, ...] = ()
    never: tuple[_Network, ...] = field(default=NEVER, repr=False)

    def may_admit(self, server: Server) -> bool:
        """Return whether a server could be admitted, judging by its text alone; `admits` has the final say."""
        literal = _literal(server.host)
        if literal is not None:
            return self.admits(server, literal)
        # Network patterns need the resolved address, which must not be revealed: a mismatch counts as unreachable.
        patterns = [one for one in self.patterns if server.port in one.ports]
        return not self.patterns or any(not isinstance(one.host, str) or _fits(server, one.host) for one in patterns)

    def admits(self, server: Server, address: _Address) -> bool:
        """Return whether the operator may connect to this address of a server."""
        if any(carried in network for carried in _carried(address) for network in self.never):
            return False
        return not self.patterns or any(
            server.port in pattern.ports and _matches(server, address, pattern.host) for pattern in self.patterns
        )


def servers(bootstrap: str) -> list[Server]:
    """Return the brokers that `bootstrapServers` names, at least one."""
    brokers: list[Server] = []
    for text in filter(None, (one.strip() for one in bootstrap.split(","))):
        host, port = _host_and_port(text.rpartition("://")[2])  # as in the Kafka client, the scheme is ignored
        port = port or "9092"
        if not host or not _is_port(port):
            message = f'"{text}" in bootstrapServers is not host:port'
            raise AddressInvalidError(message)
        brokers.append(Server(host, int(port)))
    if not brokers:
        message = "bootstrapServers names no broker"
        raise AddressInvalidError(message)
    return brokers


def _host_and_port(text: str) -> tuple[str, str]:
    if text.startswith("["):
        host, _, rest = text[1:].partition("]")
        return host, rest.removeprefix(":")
    if text.count(":") > 1:
        return text, ""
    host, _, port = text.partition(":")
    return host, port


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= len("65535") and 0 < int(text) < 65536  # noqa: PLR2004


def _name(host: str) -> str:
    return host.lower().removesuffix(".")


def _literal(host: str) -> _Address | None:
    try:
        return ip_address(host)
    except ValueError:
        return None


def _carried(address: _Address) -> list[_Address]:
    """Return an address and the IPv4 addresses that packets to it can end at."""
    if isinstance(address, IPv4Address):
        return [address]
    inside = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in _CARRYING):
        inside.append(IPv4Address(int(address) & 0xFFFFFFFF))
    return [address, *(one for one in inside if one is not None)]


def _matches(server: Server, address: _Address, pattern: str | _Network) -> bool:
    if isinstance(pattern, str):
        return _fits(server, pattern)
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return (mapped or address) in pattern


def _fits(server: Server, pattern: str) -> bool:
    return fnmatchcase(_name(server.host), pattern)
