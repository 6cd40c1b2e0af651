"""The state of apps on a cluster, as text for people and as JSON for programs.

The text shows problems and what to do first, then progress, then where tasks run; it stays short for thousands of
tasks. The JSON is complete, under stable names. Must not decide anything: the operator's conditions say whether an
app is ready.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Console

from holdfast.placement.affinity import by_name
from holdfast.protocol.assignment import VersionedAssignment
from holdfast.protocol.report import REPORT_INTERVAL, DriverReport
from holdfast.reasons import Reason
from holdfast.spec.app import Condition
from holdfast.times import moment
from holdfast.trees import Tree
from holdfast_cli.cluster.app import AppDetail, AppList, ClusterApp, Missing, OrMissing, UpstreamApp
from holdfast_cli.output.amounts import count, many, rate, span
from holdfast_cli.output.screen import styled
from holdfast_cli.output.text_table import TextTable

_SHOWN_PROCESSORS, _SHOWN_TASKS = 20, 4
_LABEL = 10
_MOST_STREAMS = 5
_OLD = 30_000
_SILENT = 2 * REPORT_INTERVAL
"""Milliseconds after which a report no longer says what flows."""
_REASONS = frozenset(reason.value for reason in Reason)
_STYLES = ("bold red", "red", "yellow", "yellow", "green")
"""From worst to best, indexed by `badness`."""
_UNKNOWN, _FINE = 3, 4


def print_apps(console: Console, app_list: AppList, now: int, *, namespace: str | None) -> None:
    """Print a line per app; `namespace` None: the list covers all namespaces."""
    if not app_list.apps:
        console.print(styled("no StreamApps" + ("" if namespace is None else f" in namespace {namespace}")))
        return
    numbers = ("ATTEMPT", "RESTARTS", "TASKS", "PLACED", "LAG")
    namespace_column = ("NAMESPACE",) if namespace is None else ()
    table = TextTable(*namespace_column, "APP", "READY", "REASON", "RUN", *numbers, "LAST BATCH", "AGE", right=numbers)
    for app, app_report in app_list.apps:
        status, verdict, report = app.status, app.verdict, app.current(app_report)
        current_report = None if isinstance(report, Missing) else report
        table.add(
            *((app.namespace,) if namespace is None else ()),
            app.name,
            ("True", "green") if verdict.ready else ("False", "red"),
            verdict.reason or "-",
            status.run_id or "-",
            *("-" if number is None else count(number) for number in (status.attempt, status.restarts, status.tasks)),
            status.placed or "-",
            count(current_report.lag) if current_report and current_report.progressed is not None else "-",
            _ago(current_report.progressed, now) if current_report else "-",
            _ago(app.created, now, ""),
        )
    table.print(console)
    for why in sorted(
        {app_report.why for app, app_report in app_list.apps if isinstance(app_report, Missing) and app.status.run_id}
    ):
        console.print(styled(("not known: ", "yellow"), f"lag and last batch: {why}"))


def print_app(console: Console, detail: AppDetail, now: int, *, all_tasks: bool) -> None:
    """Print everything about one app."""
    app, verdict = detail.app, detail.app.verdict
    how = ("ready", "bold green") if verdict.ready else ("not ready", "bold red")
    reason = f", {verdict.reason}" if verdict.reason else ""
    console.print(styled((app.name, "bold"), f"  in {app.namespace}: ", how, reason))
    console.print(styled(f"  {verdict.message}"))
    if not verdict.ready and verdict.reason in _REASONS:
        console.print(styled((f"  what it means: holdfast explain {verdict.reason}", "dim")))
    _conditions(console, app, now)
    console.print()
    facts = TextTable("", "")
    for label, text in _facts(detail, now):
        facts.add((label.ljust(_LABEL), "dim"), text)
    facts.print(console)
    _placement(console, detail.handed, all_tasks=all_tasks)
    console.print()
    if isinstance(detail.events, Missing):
        console.print(styled(("not known: ", "yellow"), f"events: {detail.events.why}"))
        return
    if not detail.events:
        console.print(styled(("no events; a cluster forgets them after an hour", "dim")))
        return
    table = TextTable("EVENT", "WHEN", "WHAT")
    for event in detail.events:
        table.add((event.reason, "yellow" if event.warning else ""), _ago(event.at, now), event.note)
    table.print(console)


def _conditions(console: Console, app: ClusterApp, now: int) -> None:
    if not app.status.conditions:
        return
    console.print()
    table = TextTable("CONDITION", "STATUS", "SINCE", "REASON", "MESSAGE")
    messages = {app.verdict.message}
    for condition in sorted(app.status.conditions, key=badness):
        message = "as above" if condition.message in messages else condition.message
        messages.add(condition.message)
        since = _ago(moment(condition.last_transition_time), now, "")
        table.add(condition.type, (condition.status, _STYLES[badness(condition)]), since, condition.reason, message)
    table.print(console)


def badness(condition: Condition) -> int:
    """Return from 0, the worst (the user has to act), to 4 how good a condition is; 3: not known."""
    if condition.status == "Unknown":
        return _UNKNOWN
    # These two are good if they are false.
    bad = {"Stalled": 0, "Reconciling": 2}.get(condition.type)
    return _FINE if (condition.status == "True") == (bad is None) else 1 if bad is None else bad


def _facts(detail: AppDetail, now: int) -> Iterator[tuple[str, str]]:
    app, status = detail.app, detail.app.status
    if app.driver is not None:
        failures = f", {many(status.failures, 'failure')} in a row" if status.failures else ""
        restarts = many(status.restarts or 0, "restart")
        yield "attempt", f"{status.attempt} of run {status.run_id}, {restarts}{failures}; pod {app.driver}"
    if status.draining is not None:
        yield "draining", status.draining
    if status.ended is not None:
        yield "ended", status.ended
    if (retry := moment(status.retry_at)) is not None and retry > now:
        yield "next", f"attempt in {span((retry - now) / 1000)}, at {status.retry_at}"
    report = app.current(detail.report)
    if isinstance(report, Missing):
        yield "report", f"not known: {report.why}"
        return
    yield "report", _ago(report.at, now)
    batch, lag = "none committed yet", "not known before the first batch of this attempt"
    if report.progressed is not None:
        batch = f"{count(report.batch)}, committed {_ago(report.progressed, now)}"
        lag = f"{many(report.lag, 'record')} unread when the batch was planned{_by_stream(report)}"
    yield "last batch", batch
    yield "lag", lag
    if report.rows is not None and now - report.at < _SILENT:
        yield "rows", f"read {_rates(report.rows.read)}; written {_rates(report.rows.written)}"
    placed = f"{count(report.placed)} of them where their state is"
    yield "tasks", f"{count(report.tasks)}, {placed}; {many(report.partitions, 'input partition')}"
    if report.waiting:
        yield "waiting", f"{many(report.waiting, 'row')} for partners in joins"
    incomplete = None if report.incomplete is None else f"tables that lack rows: {report.incomplete}"
    remarks = {"loading": report.loading, "incomplete": incomplete, "held back": _held_back(report, now)}
    yield from ((label, text) for label, text in remarks.items() if text is not None)
    yield from (("  because", f"{upstream.name} {_why_it_holds(upstream, now)}") for upstream in detail.upstream)
    yield "assignment", _applied(detail.handed, report)


def _by_stream(report: DriverReport) -> str:
    """Which streams they are of; nothing if the app reads one."""
    unread = [f"{stream} {count(records)}" for stream, records in report.lags.items() if records]
    return f": {_first_streams(unread)}" if unread and len(report.lags) > 1 else ""


def _rates(rates: Mapping[str, float]) -> str:
    return _first_streams([f"{stream} {rate(rows)}" for stream, rows in rates.items()]) or rate(0)


def _first_streams(texts: Sequence[str]) -> str:
    """The texts of those streams that have most, and whether there are more."""
    more = ["..."] if len(texts) > _MOST_STREAMS else []
    return ", ".join([*texts[:_MOST_STREAMS], *more])


def _held_back(report: DriverReport, now: int) -> str | None:
    """What holds the watermark back, and when that was said if it was long ago: it is only looked at in a batch."""
    old = report.progressed is not None and now - report.progressed >= _OLD
    return (
        f"{report.held_back} (as of {_ago(report.progressed, now)})" if report.held_back and old else report.held_back
    )


def _why_it_holds(upstream: UpstreamApp, now: int) -> str:
    if isinstance(upstream.app, Missing):
        return f"is not known: {upstream.app.why}"
    verdict, report = upstream.app.verdict, upstream.report
    if not verdict.ready or verdict.reason == Reason.COMPLETED.value:
        return f"is {verdict.text}"
    if isinstance(report, Missing):
        return f"has a report that is not known: {report.why}"
    why = _held_back(report, now) or "nothing that is known holds it back"
    return f"is ready, its last batch {_ago(report.progressed, now)}: {why}"


def _applied(handed: OrMissing[VersionedAssignment], report: DriverReport) -> str:
    applied = f"version {report.assignment}" if report.assignment else "the driver's own"
    more = ""
    if isinstance(handed, Missing):
        more = f"; the one handed over is not known: {handed.why}"
    elif handed.attempt != report.attempt:
        more = f"; version {handed.version} below was for attempt {handed.attempt}"
    elif handed.version != report.assignment:
        more = f"; version {handed.version} below is handed over and not applied yet"
    return f"{applied} is applied{more}"


def _placement(console: Console, handed: OrMissing[VersionedAssignment], *, all_tasks: bool) -> None:
    if isinstance(handed, Missing) or not handed.processors:
        return
    pairs = ((location, processor) for processor, location in handed.processors.items())
    rows = sorted(pairs, key=lambda pair: tuple(map(by_name, pair)))
    tasks_of = handed.assignment.tasks_of
    shown = rows if all_tasks else rows[:_SHOWN_PROCESSORS]
    console.print()
    table = TextTable("LOCATION", "PROCESSOR", "TASKS", "WHICH", right=("TASKS",))
    for location, processor in shown:
        tasks = tasks_of[processor]
        table.add(location, processor, count(len(tasks)), _named(tasks, all_tasks=all_tasks))
    table.print(console)
    if rest := rows[len(shown) :]:
        left = sum(len(tasks_of[processor]) for _, processor in rest)
        more = f"... and {many(len(rest), 'more processor')} with {many(left, 'task')} (--tasks shows all)"
        console.print(styled((more, "dim")))


def _named(tasks: Sequence[str], *, all_tasks: bool) -> str:
    shown = tasks if all_tasks else tasks[:_SHOWN_TASKS]
    return ", ".join(shown) + (f" and {count(len(tasks) - len(shown))} more" if len(tasks) > len(shown) else "")


def _ago(past: int | None, now: int, word: str = " ago") -> str:
    """Return the time since `past` in words. Clocks differ a little, so a time in the future counts as now."""
    return "-" if past is None else f"{span(max(0, now - past) / 1000)}{word}"


def list_json(app_list: AppList) -> Tree:
    """Return all apps as JSON."""
    return {"apps": [{**_app(app), "report": _report(report)} for app, report in app_list.apps]}


def app_json(detail: AppDetail) -> Tree:
    """Return one app as JSON; `missing` says why a part is null."""
    parts: dict[str, OrMissing[Any]] = {"report": detail.report, "assignment": detail.handed, "events": detail.events}
    return {
        **_app(detail.app),
        "report": _report(detail.report),
        "upstream": [
            {
                "app": upstream.name,
                "ready": None if isinstance(upstream.app, Missing) else upstream.app.verdict.ready,
                "message": upstream.app.why if isinstance(upstream.app, Missing) else upstream.app.verdict.message,
                "report": _report(upstream.report),
            }
            for upstream in detail.upstream
        ],
        "assignment": None if isinstance(detail.handed, Missing) else _handed(detail.handed),
        "events": None if isinstance(detail.events, Missing) else [asdict(event) for event in detail.events],
        "missing": {name: part.why for name, part in parts.items() if isinstance(part, Missing)},
    }


def _app(app: ClusterApp) -> Tree:
    return {
        "app": app.name,
        "namespace": app.namespace,
        "ready": app.verdict.ready,
        "reason": app.verdict.reason,
        "message": app.verdict.message,
        "generation": app.generation,
        "driver": app.driver,
        "status": app.status.model_dump(mode="json", by_alias=True, exclude_none=True),
    }


def _report(report: OrMissing[DriverReport]) -> Tree | None:
    return None if isinstance(report, Missing) else dict(json.loads(report.text()))


def _handed(handed: VersionedAssignment) -> Tree:
    processors = [
        {"processor": processor, "location": handed.processors[processor], "tasks": list(tasks)}
        for processor, tasks in handed.assignment.tasks_of.items()
    ]
    return {"version": handed.version, "attempt": handed.attempt, "processors": processors}
