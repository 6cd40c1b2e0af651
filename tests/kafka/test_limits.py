"""What a topic takes, by its settings: sizes of records, and timestamps, which go as near as they may. No broker."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast_runtime.streams.app_streams import ANY_TIME, TopicLimits
from holdfast_runtime.streams.kafka.client.topic_limits import record_limit, request_bytes, topic_limits
from holdfast_runtime.streams.records import RecordLimit
from tests.kafka.sent import settings_of

NOW = 1_800_000_000_000
HOUR, DAY = 3_600_000, 86_400_000
UNTIL = NOW + HOUR - 300_000
Y1950, Y2099 = -631_152_000_000, 4_070_908_800_000


def sent(limits: TopicLimits, *times: int, now: int = NOW) -> list[int]:
    timestamps: list[int] = limits.timestamps(pa.array(times, pa.int64()), now).to_pylist()
    return timestamps


def test_an_event_time_brokers_refuse_travels_as_the_nearest_accepted() -> None:
    by_default = topic_limits({})
    assert sent(by_default, NOW + 2 * HOUR, Y1950, 0, Y2099, -ANY_TIME - 1) == [UNTIL, 1, 1, UNTIL, 1]
    assert sent(by_default, 1, NOW - 40 * 365 * DAY, NOW, UNTIL) == [1, NOW - 40 * 365 * DAY, NOW, UNTIL]


@pytest.mark.parametrize(
    ("config", "lowest", "highest"),
    [
        ({}, 1, UNTIL),
        ({"message.timestamp.after.max.ms": str(ANY_TIME)}, 1, ANY_TIME),
        ({"message.timestamp.after.max.ms": "0"}, 1, NOW),
        ({"message.timestamp.before.max.ms": str(DAY)}, NOW - DAY + 300_000, UNTIL),
        ({"message.timestamp.before.max.ms": "1000", "message.timestamp.after.max.ms": "1000"}, NOW, NOW),
        ({"message.timestamp.difference.max.ms": str(DAY)}, NOW - DAY + 300_000, NOW + DAY - 300_000),
        ({"message.timestamp.type": "LogAppendTime", "message.timestamp.after.max.ms": "0"}, 1, ANY_TIME),
    ],
)  # fmt: skip
def test_the_settings_of_the_topic_say_what_is_near(config: dict[str, str], lowest: int, highest: int) -> None:
    assert sent(topic_limits(config), -(2**63), ANY_TIME) == [lowest, highest]


@given(st.lists(st.integers(-(2**63), ANY_TIME)), st.integers(0, ANY_TIME), st.integers(0, ANY_TIME))
def test_a_timestamp_is_always_one_that_the_topic_takes(times: list[int], ahead: int, behind: int) -> None:
    limits = TopicLimits(None, ahead, behind)
    for given_, went in zip(times, sent(limits, *times), strict=True):
        assert went > 0
        assert NOW - behind <= went <= NOW + ahead
        if max(1, NOW - behind + 300_000) <= given_ <= NOW + ahead - 300_000:
            assert went == given_


def test_a_batch_written_days_later_has_timestamps_of_then() -> None:
    limits = topic_limits({"message.timestamp.before.max.ms": str(DAY)})
    assert sent(limits, NOW, now=NOW + 5 * DAY) == [NOW + 4 * DAY + 300_000]


@pytest.mark.parametrize(
    ("config", "lifetime"),
    [
        ({}, None),
        ({"retention.ms": "-1"}, None),
        ({"retention.ms": str(DAY)}, DAY),
        ({"retention.ms": "0"}, 0),
        ({"retention.ms": str(DAY), "cleanup.policy": "compact"}, None),
        ({"retention.ms": str(DAY), "cleanup.policy": "compact,delete"}, DAY),
        ({"retention.ms": str(DAY), "message.timestamp.type": "LogAppendTime"}, None),
        ({"retention.ms": str(DAY), "message.timestamp.before.max.ms": str(HOUR)}, None),
        ({"retention.ms": str(DAY), "message.timestamp.before.max.ms": str(DAY)}, None),
        ({"retention.ms": str(DAY), "message.timestamp.before.max.ms": str(DAY + 1)}, DAY),
    ],
)
def test_records_expire_by_age_where_their_topic_takes_old_ones(config: dict[str, str], lifetime: int | None) -> None:
    assert topic_limits(config).lifetime == lifetime


@pytest.mark.parametrize(
    ("topic", "client", "limit"),
    [
        (None, {}, RecordLimit(1_000_000, "message.max.bytes in the config of system events")),
        (1_048_588, {}, RecordLimit(1_000_000, "message.max.bytes in the config of system events")),
        (50_000, {}, RecordLimit(49_900, "max.message.bytes of topic out")),
        (1_048_588, {"message_max_bytes": "5000000"}, RecordLimit(1_048_488, "max.message.bytes of topic out")),
        (50_000, {"message_max_bytes": "9000"}, RecordLimit(9_000, "message.max.bytes in the config of system events")),
        (
            50_000,
            {"compression_type": "zstd"},
            RecordLimit(1_000_000, "message.max.bytes in the config of system events"),
        ),
        (50_000, {"compression_type": "none"}, RecordLimit(49_900, "max.message.bytes of topic out")),
    ],
)
def test_a_record_may_fill_what_topic_and_client_take(
    topic: int | None, client: dict[str, str], limit: RecordLimit
) -> None:
    assert record_limit("out", TopicLimits(topic), settings_of("nowhere:1", **client)) == limit


def test_requests_fit_the_narrowest_topic() -> None:
    for wide in ({}, {"a": TopicLimits()}, {"a": TopicLimits(), "b": TopicLimits(5_000_000)}):
        assert request_bytes(wide, 1 << 20) == 1 << 20
    assert request_bytes({"a": TopicLimits(5_000), "b": TopicLimits(9_000)}, 1 << 20) == 4_900
