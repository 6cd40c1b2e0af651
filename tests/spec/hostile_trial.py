"""What an operator makes of one app, in a process whose memory and time have an end.

The process is forked for each case: what one case leaves behind is no excuse, or harm, of the next. Must not judge a
verdict, only that there is one and what it cost.
"""

import gc
import multiprocessing
import resource
import time
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from holdfast.spec.app import Status
from holdfast_operator.decide.facts import AppObject, Snapshot, read_spec
from holdfast_operator.decide.rules import decide
from holdfast_operator.examine.start_checks import judge
from tests.operator.apps import LIMITS, NOW, POLICY, UID
from tests.waiting import patience

ADDRESS_SPACE, CPU, DEADLINE = 1 << 30, 20, patience(60)
"""Beyond these a case ends with nothing to show: bytes above what the parent has, seconds, seconds of the clock."""
MEGABYTE = 1 << 20


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one case."""

    verdict: str
    """`valid`, `rejected`, `invalid`, or the trace of an error that must not be."""
    seconds: float
    """Of CPU."""
    megabytes: int
    """More than the parent had."""
    longest: int
    """Bytes of the longest text that the operator would show."""


def tried(tree: Any) -> Outcome:
    """What an operator makes of this tree."""
    reader, writer = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(target=_try, args=(tree, writer))
    # What other tests left behind must not be finalized in the child, where no thread of a Kafka client is.
    gc.disable()
    process.start()
    gc.enable()
    writer.close()
    try:
        outcome = reader.recv() if reader.poll(DEADLINE) else None
    except EOFError:
        outcome = None
    process.join(1)
    if process.is_alive():
        process.kill()
        process.join()
    reader.close()
    if isinstance(outcome, Outcome):
        return outcome
    return Outcome(f"no answer, exit code {process.exitcode}", float(CPU), ADDRESS_SPACE // MEGABYTE, 0)


def _try(tree: Any, answer: Connection) -> None:
    gc.freeze()
    gc.enable()
    had = _size()
    resource.setrlimit(resource.RLIMIT_AS, (had + ADDRESS_SPACE, had + ADDRESS_SPACE))
    resource.setrlimit(resource.RLIMIT_CPU, (CPU, CPU))
    before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    verdict, longest = "", 0
    try:
        verdict, longest = _judged(tree)
    except BaseException:  # noqa: BLE001 - this is what is looked for
        verdict = traceback.format_exc(limit=-6)[-3_000:]
    seconds = time.process_time() - began
    peak = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) >> 10
    answer.send(Outcome(verdict, seconds, peak, longest))
    answer.close()


def _judged(tree: Any) -> tuple[str, int]:
    """What the operator does on a look at a new app: whatever it shows stands in the status or in events."""
    metadata = tree.get("metadata") if isinstance(tree, dict) else None
    name = metadata.get("name") if isinstance(metadata, dict) else None
    whole = tree if isinstance(tree, dict) else {}
    spec = read_spec({**whole, "metadata": {**(metadata if isinstance(metadata, dict) else {}), "uid": UID}})
    streams = () if spec.app is None else spec.app.spec.streams
    snapshot = Snapshot(
        AppObject(str(name), "apps", UID, 1, whole, Status(), finalizer=True),
        counts={stream.name: stream.partitions or 4 for stream in streams},
    )
    judged = judge(snapshot.grounds, spec, POLICY)
    decision = decide(snapshot, judged, NOW, LIMITS)
    texts = [condition.message for condition in decision.status.conditions]
    verdict = "invalid" if spec.app is None else "rejected" if judged.plan is None or judged.plan.problems else "valid"
    return verdict, max((len(text.encode(errors="surrogatepass")) for text in texts), default=0)


def _size() -> int:
    """Address space of this process."""
    with open("/proc/self/statm", encoding="ascii") as file:  # noqa: PTH123 - a file without a name of ours
        return int(file.read().split()[0]) * resource.getpagesize()
