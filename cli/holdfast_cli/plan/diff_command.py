"""The command `holdfast diff OLD NEW`: show the cost of a change, field by field, before it is applied.

With `--schema` also, or only, what a version of a stream's schema costs before it is registered.
"""

import argparse
import json
from typing import Any

from rich.console import Console
from rich.text import Text

from holdfast.errors import UserActionError
from holdfast.planning.state_change import refusals
from holdfast.planning.version_effects import VersionEffect
from holdfast.spec.diff import Diff, diff
from holdfast.spec.fields import ChangeCost
from holdfast_cli.output.help_text import HelpFormatter
from holdfast_cli.output.screen import add_output_options, one_line, print_json, screen, styled
from holdfast_cli.output.text_table import TextTable
from holdfast_cli.plan.app_file import AppFile, load_app
from holdfast_cli.plan.plan_text import report_invalid
from holdfast_cli.plan.schema_versions import judged_versions, print_versions, schema_files, versions_tree

_EPILOG = """\
examples:
  holdfast diff now.yaml app.yaml
  holdfast diff app.yaml --schema orders=order.avsc

Exit codes: 0 the change can be applied, 1 it would be refused, 2 a file can't be read.
"""
_REFUSED = 1
_SHOWN, _BEFORE, _BESIDE = 48, 16, 60
"""Characters shown at least of a value, how many of them come before the first difference, and the columns beside."""
_COLORS = {"Live": "green", "Restart": "yellow", "NewRun": "red", "Forbidden": "bold red"}


def add_to(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command line."""
    parser = commands.add_parser(
        "diff",
        help="show what changing an app costs",
        description="Compare two versions of a StreamApp and say field by field what the change costs: Live, Restart, "
        "NewRun (state cannot follow) or Forbidden.",
        epilog=_EPILOG,
        formatter_class=HelpFormatter,
    )
    parser.add_argument("old", metavar="OLD", help="the app as it is")
    parser.add_argument(
        "new",
        metavar="NEW",
        nargs="?",
        help="the app as it shall be; - reads standard input. Default with --schema: OLD",
    )
    parser.add_argument(
        "--schema",
        action="append",
        default=[],
        metavar="STREAM=FILE",
        help="judge a version of a stream's schema that is not registered yet against NEW, as the start of an attempt "
        "would; STREAM-key=FILE: that of its keys. FILE is .avsc, .proto or a JSON schema, - reads standard input. "
        "Can be repeated",
    )
    add_output_options(parser)
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Print the changes and their total cost, and what versions of schemas do to the app as it shall be."""
    if options.new is None and not options.schema:
        message = "diff compares OLD with NEW, the app as it shall be, or with --schema STREAM=FILE; give one of them"
        raise UserActionError(message, code="UsageError")
    paths = [options.old] if options.new is None else [options.old, options.new]
    schemas = schema_files(options.schema, apps=paths)
    files = [load_app(path) for path in paths]
    old, new = files[0].app, files[-1].app
    if old is None or new is None:
        return report_invalid([file for file in files if file.app is None], options.output, options.color)
    app_diff = diff(old, new).with_refusals(refusals(old, new))
    effects = judged_versions(new.spec, schemas)
    if options.output == "json":
        print_json(_json(app_diff) if not schemas else _with_versions(_json(app_diff), effects))
    else:
        _print_all(files, app_diff, effects, options.color)
    return _REFUSED if app_diff.refused or any(effect.refusal is not None for effect in effects) else 0


def _json(app_diff: Diff) -> dict[str, object]:
    return {
        "cost": None if app_diff.cost is None else app_diff.cost.label,
        "newRun": app_diff.new_run,
        "refused": [change.path for change in app_diff.refused],
        "changes": [
            {
                "path": change.path,
                "old": change.old,
                "new": change.new,
                "cost": change.cost.label,
                "note": change.note,
                "reason": None if change.reason is None else change.reason.value,
            }
            for change in app_diff.changes
        ],
    }


def _with_versions(tree: dict[str, Any], effects: list[VersionEffect]) -> dict[str, object]:
    refused = dict.fromkeys(f"spec.streams[{effect.stream}]" for effect in effects if effect.refusal is not None)
    return {**tree, "refused": [*tree["refused"], *refused], "schemas": versions_tree(effects)}


def _print_all(files: list[AppFile], app_diff: Diff, effects: list[VersionEffect], color: str) -> None:
    console = screen(color)
    if len(files) > 1:
        _print(console, files, app_diff)
    if len(files) > 1 and effects:
        console.print()
    print_versions(console, effects)


def _print(console: Console, files: list[AppFile], app_diff: Diff) -> None:
    if app_diff.cost is None:
        console.print(f"{files[0].path} and {files[1].path} mean the same")
        return
    table, most = TextTable("FIELD", "OLD", "NEW", "COST"), _most_shown(console)
    for change in app_diff.changes:
        label = change.cost.label
        table.add(change.path, *_shown(_text(change.old), _text(change.new), most), (label, _COLORS[label]))
    table.print(console)
    console.print()
    for change in app_diff.changes:
        if change.note:
            console.print(styled(("note", "yellow"), f": {change.path}: {change.note}"))
    console.print(_sum(app_diff, app_diff.cost))


def _sum(app_diff: Diff, cost: ChangeCost) -> Text:
    if app_diff.refused:
        fields = ", ".join(change.path for change in app_diff.refused)
        reasons = ", ".join(sorted({change.reason.value for change in app_diff.refused if change.reason is not None}))
        if reasons:
            return styled(("refused", "bold red"), f": {reasons}: see the note of each ({fields})")
        return styled(("refused", "bold red"), f": {cost.label}: {cost.sentence} ({fields})")
    if app_diff.new_run:
        return styled(("applies", "yellow"), ": NewRun: a new run starts with empty state")
    return styled(("applies", "green"), f": {cost.label}: {cost.sentence}")


def _text(value: object) -> str:
    """A value as a cell of a table: functions have many lines."""
    text = "-" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return one_line(text.replace("\n", "\\n"))


def _most_shown(console: Console) -> int:
    """Return how many characters of a value are shown: more on a wide terminal."""
    return _SHOWN if not console.is_terminal else max(_SHOWN, (console.width - _BESIDE) // 2)


def _shown(old: str, new: str, most: int) -> tuple[str, str]:
    """Return both values cut around their first difference, as equal beginnings say nothing."""
    if max(len(old), len(new)) <= most:
        return old, new
    first = next(
        (
            index
            for index, (old_letter, new_letter) in enumerate(zip(old, new, strict=False))
            if old_letter != new_letter
        ),
        None,
    )
    start = max(0, (min(len(old), len(new)) if first is None else first) - _BEFORE)
    return _cut(old, start, most), _cut(new, start, most)


def _cut(text: str, start: int, most: int) -> str:
    start = max(0, min(start, len(text) - most))
    shown = f"…{text[start + 1 :]}" if start else text
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"
