"""Broker addresses: patterns of those that may be asked, and those that are never asked.

Whoever writes a StreamApp says where its brokers are, and the operator connects from inside of the cluster. Pure:
somebody else resolves names. An address is judged as it is connected to, after its name was resolved. Must not let
an answer depend on what a name resolves to where whoever wrote the name could tell.
"""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network

_Address = IPv4Address | IPv6Address
_Network = IPv4Network | IPv6Network

NEVER: tuple[_Network, ...] = tuple(
    ip_network(one)
    for one in (
        # Of this host, and of whoever is asked on this link.
        "0.0.0.0/8",
        "127.0.0.0/8",
        "169.254.0.0/16",  # metadata of most clouds among them
        "224.0.0.0/3",  # to many, reserved, to all
        "::/127",
        "fe80::/10",
        "ff00::/8",
        # Where clouds answer who a machine is, with what it may do.
        "100.100.100.200/32",  # Alibaba
        "168.63.129.16/32",  # Azure
        "192.0.0.192/32",  # Oracle
        "fd00:ec2::/32",  # Amazon: metadata, names, time
        "fd20:ce::254/128",  # Google
    )
)
_CARRYING = (IPv6Network("::/96"), IPv6Network("64:ff9b::/96"), IPv6Network("64:ff9b:1::/48"))
"""IPv6 networks whose addresses end with one of IPv4."""


class AddressInvalidError(Exception):
    """A broker's address, or a pattern of some, that can't be read."""


@dataclass(frozen=True, slots=True)
class Server:
    """A broker as a spec names it."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class AddressPattern:
    """One entry of `kafka.allowed`."""

    host: str | _Network
    """Of a name, with `*` for any characters, or a network."""
    ports: range

    @classmethod
    def parse(cls, text: str) -> "AddressPattern":
        """From `host`, `host:port` or `host:first-last`; the host is a name with `*`, an address or a network."""
        host, ports = _host_and_port(text)
        first, dash, last = ports.partition("-")
        numbers = (first, last if dash else first)
        if ports and not all(_is_port(one) for one in numbers):
            message = f'"{text}": after the colon stands a port, or two with a dash between them'
            raise AddressInvalidError(message)
        found = range(int(numbers[0]), int(numbers[1]) + 1) if ports else range(1, 65536)
        if not host or not found:
            message = f'"{text}" admits nothing: write host, host:port or host:first-last'
            raise AddressInvalidError(message)
        try:
            return cls(ip_network(host, strict=False), found)
        except ValueError:
            pass
        if "/" in host or ":" in host:
            message = f'"{text}" is no network; IPv6 stands in brackets where a port follows'
            raise AddressInvalidError(message)
        return cls(_name(host), found)


@dataclass(frozen=True, slots=True)
class AddressRule:
    """What the operator's values admit. Without patterns: all but `never`."""

    patterns: tuple[AddressPattern, ...] = ()
    never: tuple[_Network, ...] = field(default=NEVER, repr=False)

    def may_admit(self, server: Server) -> bool:
        """Whether any address of a server could be admitted, from the text alone; `admits` has the last word."""
        literal = _literal(server.host)
        if literal is not None:
            return self.admits(server, literal)
        # What a name resolves to decides about networks, and must not be told: it counts as not reached.
        here = [one for one in self.patterns if server.port in one.ports]
        return not self.patterns or any(not isinstance(one.host, str) or _fits(server, one.host) for one in here)

    def admits(self, server: Server, address: _Address) -> bool:
        """Whether this address of a server is connected to."""
        if any(one in network for one in _carried(address) for network in self.never):
            return False
        return not self.patterns or any(
            server.port in one.ports and _matches(server, address, one.host) for one in self.patterns
        )


def servers(bootstrap: str) -> list[Server]:
    """The brokers that `bootstrapServers` names; at least one."""
    found: list[Server] = []
    for text in filter(None, (one.strip() for one in bootstrap.split(","))):
        host, port = _host_and_port(text.rpartition("://")[2])  # as the client takes it: the scheme says nothing
        port = port or "9092"
        if not host or not _is_port(port):
            message = f'"{text}" in bootstrapServers is not host:port'
            raise AddressInvalidError(message)
        found.append(Server(host, int(port)))
    if not found:
        message = "bootstrapServers names no broker"
        raise AddressInvalidError(message)
    return found


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
    """An address, and those of IPv4 that packets to it end at."""
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
