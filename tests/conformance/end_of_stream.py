"""The end_of_stream notation: end messages for the partitions of one task give what has ended after each."""

from typing import Any

from holdfast.control.end_of_stream import no_ends
from holdfast.control.messages import EndOfStreamMessage, MessageNumber
from holdfast.control.producers import Delivery, Producers
from holdfast.tasks.partitions import parse_partition


def run_end_of_stream_case(case: dict[str, Any]) -> None:
    side_inputs = [parse_partition(name) for name in case["sideInputs"]]
    inputs = [parse_partition(name) for name in case["partitions"]]
    producers = {stream: Producers(count) for stream, count in case["taskCount"].items()}
    state = no_ends().tracking([*inputs, *side_inputs], producers, {partition.stream for partition in side_inputs})
    for batch, step in enumerate(case["steps"]):
        if "end" in step:
            partition = parse_partition(step["end"])
            count = case["taskCount"].get(partition.stream)
            message = EndOfStreamMessage(partition.stream, MessageNumber(batch, 0), step["task"], count)
            state = state.apply([Delivery(partition, message)])
        expected = step.get("ended", {})
        assert {stream: state.ended(stream) for stream in expected} == expected, step
        assert state.all_ended == step.get("all", state.all_ended), step
