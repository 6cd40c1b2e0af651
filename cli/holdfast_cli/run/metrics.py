"""The option `--metrics` of `holdfast run`: where metrics of a local run are served.

Needs the extra `runtime`; imported only where the option is given. Must not know what is measured.
"""

from dataclasses import dataclass

from holdfast.errors import UserActionError
from holdfast_runtime.driver.metrics import MetricsServer, RunMetrics

_MOST_PORT = 65_535
_MOST_DIGITS = 5


@dataclass(frozen=True, slots=True)
class MetricsAddress:
    """The address to serve metrics on."""

    host: str
    port: int
    """0: any free port."""


def parse_address(text: str) -> MetricsAddress:
    """Parse `9100`, `0.0.0.0:9100` or `[::1]:9100`; without a host, only this machine can connect."""
    host, _, port = text.rpartition(":")
    if not (port.isascii() and port.isdigit() and len(port) <= _MOST_DIGITS and int(port) <= _MOST_PORT):
        message = f"--metrics {text}: write PORT or HOST:PORT, e.g. 9100 or 0.0.0.0:9100"
        raise UserActionError(message, code="UsageError")
    return MetricsAddress(host.removeprefix("[").removesuffix("]") or "127.0.0.1", int(port))


def serve_metrics(metrics: RunMetrics, address: MetricsAddress) -> MetricsServer:
    """Serve metrics until the server is closed."""
    try:
        return MetricsServer(metrics, address.host, address.port)
    except OSError as error:
        message = f"--metrics: can't listen on {address.host}:{address.port}: {error}"
        raise UserActionError(message, code="UsageError") from error
