"""Traces of batches: whether they are sent, which batches, and the thread that does it.

    batch is done -> due? -> a queue of a few -> spans -> OpenTelemetry's SDK: sampler, queue, thread, HTTP

The variables of OpenTelemetry say all of it. Traces are no part of what an app needs: nothing waits for them but the
end of a run, for a few seconds, and without an endpoint nothing is imported. Must not raise into a run.
"""

import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self

from holdfast.errors import code_of
from holdfast.one_line import one_line
from holdfast_runtime.driver.batch_spans import DoneBatch, FailedBatch, TracedAttempt, is_due
from holdfast_runtime.progress import AttemptStarted, BatchBegun, BatchWaiting, Event, Progress
from holdfast_runtime.slot.report import SlotReport

if TYPE_CHECKING:
    from holdfast_runtime.driver.span_export import SpanExport

_LOG = logging.getLogger("holdfast")
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_SAMPLER, _EXPORTERS, _DISABLED = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED"
_PROTOCOL, _EXPORTER = "http/protobuf", "otlp"
_LAST_WITHIN = 3.0
"""Seconds that the end of a run waits for the last spans."""
_MOST_WAITING = 16
"""Batches whose spans are still to be made."""
_MOST_WAITS = 32
"""How often a span says that its batch waits."""
_MILLISECOND = 1_000_000


class BatchTraces:
    """Traces the batches of a run. A context manager."""

    def __init__(
        self,
        app: str,
        namespace: str | None,
        *,
        sampled: bool = False,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """`sampled`: the SDK's sampler chooses among all batches."""
        self._app, self._namespace, self._sampled, self._clock = app, namespace, sampled, clock
        self._attempt: TracedAttempt | None = None
        self._running: BatchBegun | None = None
        """The batch that is running."""
        self._waits: list[int] = []
        self._reports: tuple[Mapping[str, str], Sequence[SlotReport]] = {}, ()
        self._last = 0
        self._waiting: queue.Queue[DoneBatch | FailedBatch | None] = queue.Queue(_MOST_WAITING)
        self._export: SpanExport | None = None
        self._warned: set[str] = set()
        self._over = False
        """Whether no span will be made any more."""
        self._thread = threading.Thread(target=self._run, name="traces", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._attempt is not None and self._running is not None:
            running, waits = self._running, tuple(self._waits)
            code = code_of(error)
            self._offer(
                FailedBatch(self._attempt, running.batch, running.at * _MILLISECOND, self._clock(), code, waits)
            )
        deadline = time.monotonic() + _LAST_WITHIN
        with suppress(queue.Full):
            self._waiting.put(None, timeout=0 if self._over else _LAST_WITHIN)
        self._thread.join(max(0.0, deadline - time.monotonic()))
        if self._thread.is_alive():
            self._warn("end", f"the last ones were not received within {_LAST_WITHIN:g} s")
            if self._export is not None:
                self._export.give_up()

    def listen(self, event: Event) -> None:
        """Note what happens in the run."""
        match event:
            case AttemptStarted():
                self._attempt = TracedAttempt(event.app, self._namespace, event.run, event.attempt)
                self._running = None
            case BatchBegun():
                self._running = event
                self._waits.clear()
            case BatchWaiting():
                if self._running is not None and len(self._waits) < _MOST_WAITS:
                    self._waits.append(self._clock())
            case Progress():
                self._done(event)
            case _:
                pass

    def reported(self, locations: Mapping[str, str], reports: Sequence[SlotReport]) -> None:
        """Note what slots report of the batch whose progress follows; `locations`: of each slot, in their order."""
        self._reports = locations, reports

    def _done(self, progress: Progress) -> None:
        (locations, reports), self._reports, self._running = self._reports, ({}, ()), None
        end = self._clock()
        if self._attempt is not None and not self._over and (self._sampled or is_due(self._last, end)):
            self._last = end
            self._offer(DoneBatch(self._attempt, end, progress, reports, locations, tuple(self._waits)))

    def _offer(self, batch: DoneBatch | FailedBatch) -> None:
        try:
            self._waiting.put_nowait(batch)
        except queue.Full:
            self._warn("behind", "batches end faster than their spans are made, so some have none")

    def _run(self) -> None:
        try:
            with closing(self._opened()) as export:
                self._export = export
                while (batch := self._waiting.get()) is not None:
                    export.emit(batch.span())
        except ModuleNotFoundError as error:
            self._warn(
                "missing",
                f"{error.name} is not installed. In a checkout of Holdfast, pip install '.[traces]', or set "
                f"{_DISABLED}=true",
            )
        except Exception as error:  # noqa: BLE001 - whatever it is, the run has nothing to do with it
            self._warn("broken", f"{type(error).__name__}: {error}")
        finally:
            self._over = True

    def _opened(self) -> "SpanExport":
        from holdfast_runtime.driver.span_export import SpanExport  # noqa: PLC0415 - needs the extra `traces`

        return SpanExport(self._app, self._namespace)

    def _warn(self, kind: str, why: str) -> None:
        if kind not in self._warned:
            self._warned.add(kind)
            _LOG.warning("traces can't be sent: %s", one_line(why))


@contextmanager
def batch_traces(
    app: str, namespace: str | None = None, environment: Mapping[str, str] = os.environ
) -> Iterator[BatchTraces | None]:
    """Return what traces the batches of an app; None if no variable says where to."""
    if not _are_sent(environment):
        yield None
        return
    with BatchTraces(app, namespace, sampled=bool(environment.get(_SAMPLER))) as traces:
        yield traces


def _are_sent(environment: Mapping[str, str]) -> bool:
    exporters = (environment.get(_EXPORTERS) or _EXPORTER).split(",")
    if (
        not any(environment.get(name) for name in _ENDPOINTS)
        or environment.get(_DISABLED, "").strip().casefold() == "true"
        or _EXPORTER not in map(str.strip, exporters)
    ):
        return False
    protocol = next((environment[name] for name in _PROTOCOLS if environment.get(name)), _PROTOCOL)
    if protocol != _PROTOCOL:
        _LOG.warning(
            "traces can't be sent by the protocol %s: set %s=%s, and the endpoint for it, usually port 4318",
            one_line(protocol),
            _PROTOCOLS[0],
            _PROTOCOL,
        )
        return False
    return True
