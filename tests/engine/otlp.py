"""What a receiver of OpenTelemetry's protocol got, read with OpenTelemetry's own classes."""

from collections.abc import Mapping
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.registry.scripted import ScriptedAnswer, ScriptedRegistry

RECEIVED = ScriptedAnswer(200, b"")


def receiver(*answers: ScriptedAnswer) -> ScriptedRegistry:
    """A receiver that takes everything, or answers so."""
    return ScriptedRegistry(list(answers) or [RECEIVED])


def requests(server: ScriptedRegistry) -> list[ExportTraceServiceRequest]:
    """All requests that came."""
    return [ExportTraceServiceRequest.FromString(body) for *_, body in server.requests]


def sent_spans(server: ScriptedRegistry) -> list[Span]:
    """All spans that came."""
    return [
        span
        for request in requests(server)
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def resource_of(server: ScriptedRegistry) -> Mapping[str, Any]:
    """What the first request says of its sender."""
    return values(requests(server)[0].resource_spans[0].resource.attributes)


def values(attributes: Any) -> Mapping[str, Any]:
    """Attributes by name."""
    return {entry.key: getattr(entry.value, entry.value.WhichOneof("value")) for entry in attributes}
