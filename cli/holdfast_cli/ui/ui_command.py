"""The command `holdfast ui`: a page in the browser that shows the apps of a cluster.

Reads with the user's rights and writes nothing.
"""

import argparse
import os
import sys
import threading
import time
import webbrowser
from contextlib import closing, suppress

from holdfast_cli.cluster.target import ClusterTarget, add_cluster_options, checked_namespace, cluster_target
from holdfast_cli.output.help_text import HelpFormatter
from holdfast_cli.output.screen import print_message

_LAST_PORT = 65_535
_EPILOG = """\
The address that it prints holds a secret: who knows it sees what you may see, as long as the command runs. It listens
on 127.0.0.1 only, needs no internet, changes nothing, and ends with Ctrl-C. On another host: ssh -L 8080:127.0.0.1:8080
HOST holdfast ui --port 8080 --no-browser.

The cluster, the user and the namespace are those of kubectl: --kubeconfig, or the files of KUBECONFIG, or
~/.kube/config. It takes the rights to get and list streamapps.holdfast.dev and configmaps, to list pods and
events.events.k8s.io, and to get pods/log; what may not be seen is said to be missing.

Exit codes: 0 ended by Ctrl-C, 2 wrong command line, no kubeconfig, or the port is in use.

examples:
  holdfast ui
  holdfast ui -A --context production
  holdfast ui -n shop -n billing --port 8080 --no-browser
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "ui",
        help="show the apps on a cluster in the browser",
        description="Show the apps on a cluster in the browser: what is wrong first and what to do, the plan as a "
        "picture, tasks at their places, failures and logs.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    group = parser.add_mutually_exclusive_group()
    group.add_argument("-n", "--namespace", action="append", help="may be given several times (default: the context's)")
    group.add_argument("-A", "--all-namespaces", action="store_true", help="apps of all namespaces")
    add_cluster_options(parser)
    parser.add_argument("--port", type=_port, default=0, metavar="N", help="port on 127.0.0.1 (default: a free one)")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Serve until Ctrl-C."""
    from holdfast_cli.ui.looks import ClusterLooks  # noqa: PLC0415 - loads the planner
    from holdfast_cli.ui.server import PageServer  # noqa: PLC0415 - as above

    target = cluster_target("ui", options)
    names = () if options.all_namespaces else options.namespace or (target.namespace,)
    namespaces = tuple(dict.fromkeys(map(checked_namespace, names)))
    looks = ClusterLooks(target.connect, target.context or "this cluster", namespaces, time.monotonic)
    with closing(PageServer(looks, options.port)) as server, suppress(KeyboardInterrupt):
        sys.stdout.write(f"{server.address}\n")
        sys.stdout.flush()
        print_message(f"holdfast: the page is at this address, {_way_to_it(target, server.port)}")
        # The first look loads the client and logs in: that takes as long as a browser to start.
        threading.Thread(target=looks.apps, name="first look", daemon=True).start()
        if not options.no_browser and _has_screen():
            webbrowser.open(server.opening_address())
        server.serve()
    return 0


def _way_to_it(target: ClusterTarget, port: int) -> str:
    pod = None if target.files else os.environ.get("HOSTNAME")
    if pod is None:
        return "which is only for you; Ctrl-C ends it"
    return f"as long as this runs: kubectl port-forward -n {target.namespace} {pod} {port}"


def _has_screen() -> bool:
    """Return whether a browser would open in a window: one in the terminal would take it over."""
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _port(text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(_LAST_PORT)) and int(text) <= _LAST_PORT):
        message = f"{text} is no port; write a number from 0, a free one, to {_LAST_PORT}"
        raise argparse.ArgumentTypeError(message)
    return int(text)
