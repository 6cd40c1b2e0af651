"""The commands `holdfast drain` and `holdfast resume`: set `spec.suspend` and wait until it has effect.

Writes nothing but `spec.suspend`. Must not end a pod: the operator does that, and lets the driver finish its batch.
The operator's conditions are taken as they are.
"""

import argparse
import time
from collections.abc import Callable, Collection
from contextlib import closing
from dataclasses import asdict, dataclass
from functools import partial
from typing import Protocol

from rich.console import Console

from holdfast.errors import HoldfastError
from holdfast.reasons import Reason
from holdfast.trees import Tree
from holdfast_cli.cluster.app import (
    APPS,
    AppDetail,
    AppEvent,
    AppUnknownError,
    Missing,
    ObjectKind,
    ObjectReader,
    read_app,
)
from holdfast_cli.cluster.target import (
    NamespaceTarget,
    add_cluster_options,
    add_namespace_option,
    add_output_options,
    duration_seconds,
    namespace_target,
)
from holdfast_cli.output.amounts import count, many
from holdfast_cli.output.failures import print_failure
from holdfast_cli.output.help_text import HelpFormatter
from holdfast_cli.output.live import print_json, watch, watch_view
from holdfast_cli.output.screen import print_message, screen, styled

_NO, _INTERRUPTED = 1, 130
_EVERY = 1.0
"""Seconds between two looks."""
_BEGUN = {"drain": "is being drained", "resume": "is being resumed"}
_RESUME_PATCH = '{"spec":{"suspend":false}}'
_LATE = 3
"""Extra looks for the event that says how an attempt ended: it may come after the condition."""
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
        formatter_class=HelpFormatter,
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
    add_output_options(parser)
    parser.set_defaults(run=run, verb=verb)


def run(options: argparse.Namespace) -> int:
    """Set `spec.suspend` and wait for the effect."""
    target = namespace_target(options.verb, options)
    with closing(target.connect()) as client:
        return set_suspend(client, target, options, partial(time.sleep, _EVERY))


class SuspendClient(ObjectReader, Protocol):
    """What a drain or resumption needs of a cluster."""

    def patch(self, kind: ObjectKind, namespace: str, name: str, body: Tree) -> Tree | None:
        """Merge `body` into the object and return it, or None if it does not exist."""


@dataclass(frozen=True, slots=True)
class SuspendProgress:
    """An app being drained or resumed, in the order of `-o json`; equal to another if nothing visible has changed."""

    app: str
    namespace: str
    suspend: bool
    """The value of `spec.suspend`."""
    suspended: bool
    """Whether it is stopped because of that."""
    ready: bool
    reason: str | None
    message: str
    attempt: int | None
    driver: bool
    """Whether a driver is running."""
    batch: int | None
    """The last committed batch."""
    lag: int | None
    ended: str | None
    """How its attempt ended, if it did while we were watching."""
    stalled: bool

    def tree(self) -> Tree:
        """Return the progress as JSON."""
        return {name: value for name, value in asdict(self).items() if name != "stalled"}

    @property
    def line(self) -> str:
        """Return the progress as one line of text."""
        facts = [self.message]
        if self.batch is not None and self.driver:
            facts += [f"batch {count(self.batch)} is committed", f"{many(self.lag or 0, 'record')} unread"]
        return f"{self.reason or 'Waiting'}: {'; '.join(facts)}"


def set_suspend(
    client: SuspendClient, target: NamespaceTarget, options: argparse.Namespace, pause: Callable[[], None]
) -> int:
    """Set `spec.suspend`, wait for the effect, and print the outcome and how to undo it; return the exit code."""
    drains, name = options.verb == "drain", options.app
    status, back = (target.command("holdfast", word, name) for word in ("status", "resume" if drains else "drain"))
    look = partial(read_app, client, target.namespace, name)
    done, code = "was not changed", 0
    try:
        first = look()
        now = _progress(first)
        already = now.suspend == drains and (now.suspended or not drains)
        if now.suspend != drains:
            _patch(client, target.namespace, name, drains)
            done = f"{_BEGUN[options.verb]}, and that goes on; take it back with {back}"
        if already:
            text = "is suspended already" if drains else "is not suspended"
        elif options.wait:
            now, code, text = _wait(look, first, options, pause)
        else:
            now, text = _progress(look()), f"{_BEGUN[options.verb]}; see {status}"
    except HoldfastError as error:
        print_message(f"holdfast: {error}")
        print_failure(options.output, error.code, str(error))
        return _NO
    except KeyboardInterrupt:
        print_message(f"holdfast: {name} {done}")
        return _INTERRUPTED
    if code != 0:
        print_message(f"holdfast: {name}: {text}; see {status}")
    elif options.output == "text":
        console = screen(options.color)
        console.print(styled((name, "bold"), f" {text}"))
        if now.suspend:
            kubectl = target.command("kubectl", "patch", "streamapp", name, "--type=merge", "-p", _RESUME_PATCH)
            console.print(styled(("take it up again: ", "dim"), back), soft_wrap=True)
            console.print(styled(("or with:          ", "dim"), kubectl), soft_wrap=True)
    if options.output == "json" and (already or not options.wait):
        print_json(now.tree())
    return code


def _patch(client: SuspendClient, namespace: str, name: str, suspend: bool) -> None:  # noqa: FBT001 - it is the value
    if client.patch(APPS, namespace, name, {"spec": {"suspend": suspend}}) is None:
        message = f"StreamApp {name} in namespace {namespace} was deleted a moment ago"
        raise AppUnknownError(message)


def _wait(
    look: Callable[[], AppDetail], first: AppDetail, options: argparse.Namespace, pause: Callable[[], None]
) -> tuple[SuspendProgress, int, str]:
    """Look and show progress until it is over; return the last progress, the exit code and the outcome."""
    drains, began, late = options.verb == "drain", time.monotonic(), 0
    before = () if isinstance(first.events, Missing) else first.events
    now = _progress(first)
    drove = now.driver
    with watch_view(options.output, options.color, _draw, SuspendProgress.tree) as view:
        looks = watch(lambda: _progress(look(), before), view, pause, now)
        while True:
            progress = next(looks)
            if progress is not None:
                now, drove = progress, drove or progress.driver
                end = _drain_outcome(now) if drains else _resume_outcome(now)
                if end is not None and (end[0] != 0 or not drains or not drove or now.ended or late >= _LATE):
                    return now, *end
                late += end is not None
            if options.timeout is not None and time.monotonic() - began >= options.timeout:
                return now, _NO, f"{_BEGUN[options.verb]}, not done within the --timeout: {now.line}"


def _draw(console: Console, now: SuspendProgress) -> None:
    console.print(styled(now.line))


def _progress(detail: AppDetail, before: Collection[AppEvent] = ()) -> SuspendProgress:
    """Return the progress; `before`: events that existed when the command began."""
    app, verdict, report = detail.app, detail.app.verdict, detail.app.current(detail.report)
    committed = None if isinstance(report, Missing) or report.progressed is None else report
    events = () if isinstance(detail.events, Missing) else detail.events
    # The first event of a drain says that it was requested, a later one how the attempt ended.
    ends = [event.note for event in events if event not in before and event.reason != Reason.SUSPENDED]
    driver = app.holds("DriverRunning")
    return SuspendProgress(
        app=app.name,
        namespace=app.namespace,
        suspend=app.suspend,
        suspended=app.suspend and verdict.reason == Reason.SUSPENDED and not driver,
        ready=verdict.ready,
        reason=verdict.reason,
        message=verdict.message,
        attempt=app.status.attempt,
        driver=driver,
        batch=committed.batch if committed else None,
        lag=committed.lag if committed else None,
        ended=ends[-1] if ends else None,
        # Without a reason, the conditions are about an older generation.
        stalled=app.holds("Stalled") and verdict.reason is not None,
    )


def _drain_outcome(now: SuspendProgress) -> tuple[int, str] | None:
    """Return exit code and outcome of a drain; None: it goes on."""
    if not now.suspend:
        return _NO, (
            "somebody set spec.suspend to false meanwhile, so it is not drained; "
            "if it is applied from a file or by GitOps, set suspend: true there"
        )
    if now.reason == Reason.INVALID_SPEC:
        return _NO, f"it can't be drained as long as its spec is invalid: {now.message}"
    if not now.suspended:
        return None
    how = f": {now.ended}" if now.ended else ""
    batch = "" if now.batch is None else f"; its last batch is {count(now.batch)}"
    return 0, f"is suspended{how}{batch}; its state is kept"


def _resume_outcome(now: SuspendProgress) -> tuple[int, str] | None:
    """Return exit code and outcome of a resumption; None: it goes on."""
    if now.suspend:
        return _NO, "somebody set spec.suspend to true meanwhile, so it stays suspended"
    if now.ready:
        return 0, f"is ready: {now.message}"
    if now.stalled:
        return _NO, f"does not run: {now.reason}: {now.message}"
    return None
