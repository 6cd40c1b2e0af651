"""The watermark notation: watermarks and the clock of one task give the watermark per partition and stream."""

from typing import Any

from holdfast.control.messages import MessageNumber, WatermarkMessage
from holdfast.control.producers import Delivery, Producers
from holdfast.control.watermark import no_watermarks
from holdfast.tasks.partitions import parse_partition


def run_watermark_case(case: dict[str, Any]) -> None:
    now = 0
    producers = {
        stream: Producers(count, idle_after=case["idleAfterMs"], quorum=case["quorum"])
        for stream, count in case["taskCount"].items()
    }
    state = no_watermarks().tracking([parse_partition(name) for name in case["partitions"]], producers, now)
    for batch, step in enumerate(case["steps"]):
        now += step.get("advanceMs", 0)
        if "watermark" in step:
            partition = parse_partition(step["watermark"])
            count = case["taskCount"].get(partition.stream)
            message = WatermarkMessage(step["timestamp"], MessageNumber(batch, 0), step["task"], count)
            state = state.apply([Delivery(partition, message)], now)
        if step.get("tick"):
            state = state.tick(now)
        partitions, streams = step.get("partitions", {}), step.get("streams", {})
        assert {name: state.of(parse_partition(name)) for name in partitions} == partitions, step
        assert {stream: state.stream(stream) for stream in streams} == streams, step
