"""Spans handed to OpenTelemetry's SDK, which samples them and sends them over HTTP as its variables say.

Imported only where traces are sent, as it needs the extra `traces`. The SDK logs each failure, and one message with a
header in it; of all that, the first of each kind becomes a warning. Must not know what spans mean.
"""

import logging
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.metadata import version

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Status, StatusCode, set_span_in_context

from holdfast.one_line import one_line
from holdfast_runtime.driver.batch_spans import Span

_LOG, _SDK_LOG = logging.getLogger("holdfast"), logging.getLogger("opentelemetry")
_MAY_SHOW_HEADERS = "opentelemetry.util"


class SpanExport:
    """Sends spans. What the SDK's queue has no room for is gone."""

    def __init__(self, app: str, namespace: str | None) -> None:
        """Raise what the SDK raises if it can't use its variables."""
        self._warnings = _FirstOfEachKind()
        with ExitStack() as undone:
            undone.enter_context(self._warnings.instead())
            self._exporter = OTLPSpanExporter()
            self._processor = BatchSpanProcessor(self._exporter)
            undone.callback(self._processor.shutdown)
            # The end of a process must not wait for a server: `close` does, and somebody knows how long.
            provider = TracerProvider(resource=_resource(app, namespace), shutdown_on_exit=False)
            provider.add_span_processor(self._processor)
            self._tracer = provider.get_tracer("holdfast", version("holdfast"))
            self._undone = undone.pop_all()

    def emit(self, span: Span, parent: Context | None = None) -> None:
        """Put a span and all below it into the SDK's queue, unless its sampler leaves it out."""
        sdk_span = self._tracer.start_span(
            span.name, parent or Context(), attributes=dict(span.attributes), start_time=span.begin
        )
        if not sdk_span.is_recording():
            return
        for moment in span.waits:
            sdk_span.add_event("waiting", timestamp=moment)
        if span.error is not None:
            sdk_span.set_status(Status(StatusCode.ERROR, span.error))
        inside = set_span_in_context(sdk_span, Context())
        for child in span.children:
            self.emit(child, inside)
        sdk_span.end(span.end)

    def close(self) -> None:
        """Send what is left, however long that takes."""
        with self._undone:
            self._processor.force_flush()

    def give_up(self) -> None:
        """Have `close` return soon; for another thread."""
        self._warnings.setLevel(logging.CRITICAL)
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


def _resource(app: str, namespace: str | None) -> Resource:
    """Return what is known of the sender; variables say it better."""
    app_names = {"service.name": app, **({} if namespace is None else {"service.namespace": namespace})}
    return Resource.create({**app_names, **OTELResourceDetector().detect().attributes})


class _FirstOfEachKind(logging.Handler):
    """Turns the first message of each kind into a warning of ours."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self._kinds: set[str] = set()

    @contextmanager
    def instead(self) -> Iterator[None]:
        """Take the SDK's messages in place of its own log: they say each failure, and may go where a view is drawn."""
        _SDK_LOG.addHandler(self)
        _SDK_LOG.propagate = False
        try:
            yield
        finally:
            _SDK_LOG.removeHandler(self)
            _SDK_LOG.propagate = True

    def emit(self, record: logging.LogRecord) -> None:
        """Show the message, unless one of its kind was shown."""
        kind = str(record.msg)
        if kind in self._kinds:
            return
        self._kinds.add(kind)
        if record.name.startswith(_MAY_SHOW_HEADERS):
            text = "a variable of OpenTelemetry is not a list of name=value, as OTEL_EXPORTER_OTLP_HEADERS has to be"
        else:
            text = record.getMessage()
        _LOG.warning("traces (the next such messages are left out): %s", one_line(text))
