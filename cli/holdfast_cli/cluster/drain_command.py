"""The commands `holdfast drain` and `holdfast resume`: stop an app after its batch, and start it again.

Must not import the Kubernetes client before it is needed: it takes half a second to load.
"""

import argparse

from holdfast_cli.cluster.target import add_cluster_options, add_namespace_option, duration_seconds, need_client

_COMMON = """\
If the app is applied from a file, by Helm or by GitOps, set spec.suspend there too: what applies it next would take
this back.

The cluster, the user and the namespace are those of kubectl. It takes the rights to get and patch
streamapps.holdfast.dev; what else you may see (configmaps, events.events.k8s.io) is shown as it goes on.
-o json writes a line for each change; the last one is how it is at the end.
"""
_DRAIN = f"""\
Sets spec.suspend to true and waits: the driver finishes its batch, commits it and ends. State, positions and volume
claims are kept, and no attempt starts until it is taken up again. A driver has at least two minutes to finish; one
that does not is stopped, which is said, and the next attempt repeats its batch.

{_COMMON}
Exit codes: 0 it is suspended (it was already; --no-wait: it will be), 1 there is no such app, it may not be changed, it
was changed back meanwhile, or the --timeout is over, 2 wrong command line or no cluster, 130 Ctrl-C: it goes on.

examples:
  holdfast drain ad-clicks
  holdfast drain ad-clicks -n shop --timeout 10m
  holdfast drain ad-clicks --no-wait
"""
_RESUME = f"""\
Sets spec.suspend to false and waits until the app is ready: its next attempt has committed a batch.

{_COMMON}
Exit codes: 0 it is ready (it was not suspended; --no-wait: it will start), 1 there is no such app, it may not be
changed, it can't run and says why, or the --timeout is over, 2 wrong command line or no cluster, 130 Ctrl-C.

examples:
  holdfast resume ad-clicks
  holdfast resume ad-clicks -n shop --timeout 5m
"""


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add both command lines."""
    _add(commands, "drain", "stop an app on a cluster after its batch, and keep its state", _DRAIN)
    _add(commands, "resume", "take up an app that was drained", _RESUME)


def _add(commands: "argparse._SubParsersAction[argparse.ArgumentParser]", verb: str, summary: str, epilog: str) -> None:
    parser = commands.add_parser(
        verb,
        help=summary,
        description=f"{summary[0].upper()}{summary[1:]}.",
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("app", metavar="APP", help="name of a StreamApp")
    add_namespace_option(parser)
    add_cluster_options(parser)
    parser.add_argument(
        "--wait", action=argparse.BooleanOptionalAction, default=True, help="go on until it is so (default)"
    )
    parser.add_argument(
        "--timeout", type=duration_seconds, metavar="10m", help="wait no longer (default: as long as it takes)"
    )
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    parser.add_argument("--color", choices=("auto", "always", "never"), default="auto", help="default: on a terminal")
    parser.set_defaults(run=run, verb=verb)


def run(options: argparse.Namespace) -> int:
    """Set `spec.suspend` and wait for the effect."""
    need_client(options.verb)
    from holdfast_cli.cluster.suspend import DRAIN, RESUME, suspend_or_resume  # noqa: PLC0415 - needs the extra `cluster`

    return suspend_or_resume(options, DRAIN if options.verb == "drain" else RESUME)
