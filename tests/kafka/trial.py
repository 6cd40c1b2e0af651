"""A broker and a registry to try apps with, at the addresses that the pages name: `make kafka`.

Both are the tests' own, on loopback, and keep what is written to them until they are ended with Ctrl-C.
"""

import signal
import socket
import sys
from contextlib import ExitStack, closing

from tests.kafka.broker import Broker, BrokerFailedError
from tests.registry.server import API, Apicurio, RegistryFailedError


def main(broker_port: int = 9092, registry_port: int = 8081) -> int:
    """Run both until Ctrl-C or SIGTERM."""
    for ending in (signal.SIGINT, signal.SIGTERM):
        signal.signal(ending, signal.default_int_handler)
    for port in (broker_port, registry_port):
        if _answers(port):
            sys.stderr.write(f"something listens at port {port} already: end it, or use it\n")
            return 1
    with ExitStack() as running:
        try:
            _say("starting a broker and a registry, which Maven fetches the first time ...")
            running.enter_context(Broker(port=broker_port))
            _say(f"broker    localhost:{broker_port}")
            running.enter_context(Apicurio(registry_port))
            _say(f"registry  http://localhost:{registry_port}{API}")
            _say("Ctrl-C ends both, and removes what was written")
            signal.pause()
        except (BrokerFailedError, RegistryFailedError) as error:
            sys.stderr.write(f"{error}\n")
            return 1
        except KeyboardInterrupt:
            pass
    return 0


def _answers(port: int) -> bool:
    with closing(socket.socket()) as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
