"""`holdfast letters --put-back`: what would be put back is shown, confirmed and done.

Must not decide which records can be put back. Needs the extra `runtime`; imported only by `holdfast letters`.
"""

import argparse
import sys
from collections.abc import Iterable
from typing import Any

from holdfast_cli.output.amounts import many
from holdfast_cli.output.screen import confirmed, one_line, print_json, print_message, screen
from holdfast_cli.output.text_table import TextTable
from holdfast_runtime.driver.put_back import PutBackPlan, decide_put_back
from holdfast_runtime.driver.put_back_records import put_back_records, put_back_streams
from holdfast_runtime.inspection.dead_letters import DeadLetter
from holdfast_runtime.inspection.local_app import LocalApp

_NOT_DONE = 1
_MEANS = "They come at the end of their partitions, behind all that is there now."
_OF_STEPS = "{} failed in a step: all steps that read the stream get them, also steps that had no trouble with them."
_BY_OFFSET = "{} in Kafka known by their offset alone: if the topic was created again since, these are others."


def put_letters_back(local_app: LocalApp, letters: Iterable[DeadLetter], options: argparse.Namespace) -> int:
    """Put the records of these letters back after a confirmation; return the exit code."""
    plan = decide_put_back(letters, put_back_streams(local_app), again=options.again)
    if options.output == "text":
        _print(plan, options.color)
    agreed = bool(plan.records) and (options.yes or (options.output == "text" and confirmed("Put them back?")))
    written = put_back_records(local_app, plan) if agreed else 0
    if options.output == "json":
        print_json({"app": local_app.app.name, **_tree(plan), "written": written})
    if plan.records and not agreed:
        print_message("holdfast: nothing was put back; add --yes to put these records back")
        return _NOT_DONE
    if options.output == "text":
        sys.stdout.write(f"{many(written, 'record')} put back\n")
    return 0


def _print(plan: PutBackPlan, color: str) -> None:
    console = screen(color)
    if plan.records:
        table = TextTable("PARTITION", "RECORDS", right=("RECORDS",))
        for partition, times in sorted(plan.records.items()):
            table.add(str(partition), str(len(times)))
        table.print(console)
        console.print(_MEANS)
    if plan.of_steps:
        console.print(_OF_STEPS.format(many(plan.of_steps, "record")))
    if plan.by_offset:
        console.print(_BY_OFFSET.format(many(plan.by_offset, "record")))
    for (obstacle, source), count in sorted(plan.left_out.items(), key=lambda item: item[0][1]):
        console.print(f"left out: {many(count, 'letter')} of {one_line(source)}: {obstacle.value}")


def _tree(plan: PutBackPlan) -> dict[str, Any]:
    return {
        "partitions": [
            {"partition": str(partition), "offsets": sorted(times)} for partition, times in sorted(plan.records.items())
        ],
        "leftOut": [
            {"why": obstacle.name, "of": source, "letters": count}
            for (obstacle, source), count in plan.left_out.items()
        ],
    }
