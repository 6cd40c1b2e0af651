"""The queries of Nexmark as Flink SQL over topics: tables of topics around the texts of `bench.nexmark.flink_sql`."""

from collections.abc import Mapping
from dataclasses import dataclass

from bench.nexmark.flink_sql import QUERIES as PLAIN
from bench.nexmark.flink_sql import FlinkQuery

_TYPES: Mapping[str, str] = {
    **dict.fromkeys(("id", "auction", "bidder", "price", "initial_bid", "reserve", "seller", "category"), "BIGINT"),
    **dict.fromkeys(("num", "total_bids", "rank1_bids", "rank2_bids", "rank3_bids"), "BIGINT"),
    **dict.fromkeys(("min_price", "max_price", "sum_price"), "BIGINT"),
    **dict.fromkeys(("date_time", "auction_date_time", "expires"), "TIMESTAMP_LTZ(6)"),
    **dict.fromkeys(("starttime", "window_start", "window_end"), "TIMESTAMP_LTZ(3)"),
    "avg_price": "DOUBLE",
    "converted": "DECIMAL(23, 3)",
}
"""By name, but for texts."""


@dataclass(frozen=True, slots=True)
class _Answer:
    """The columns of a query, and which of them are the key of its updates."""

    columns: tuple[str, ...]
    key: tuple[str, ...] = ()


_BID = ("auction", "bidder", "price", "channel", "url", "date_time", "extra")
_ITEM = ("item_name", "description", "initial_bid", "reserve", "expires", "seller", "category")
_PRICES = ("total_bids", "rank1_bids", "rank2_bids", "rank3_bids", "min_price", "max_price", "avg_price", "sum_price")
_CONVERTED = FlinkQuery(
    {"bid": ("auction", "bidder", "price", "date_time", "extra")},
    "SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, date_time, extra FROM bid",
)
QUERIES: Mapping[str, FlinkQuery] = {"q1": _CONVERTED} | {
    name: PLAIN[name] for name in ("q5", "q8", "q17", "q18", "q20")
}
_ANSWERS: Mapping[str, _Answer] = {
    "q1": _Answer(("auction", "bidder", "price", "date_time", "extra")),
    "q5": _Answer(("auction", "num", "window_end")),
    "q8": _Answer(("id", "name", "starttime")),
    "q17": _Answer(("auction", "window_start", "window_end", *_PRICES), ("auction", "window_start")),
    "q18": _Answer(_BID, ("auction", "bidder")),
    "q20": _Answer((*_BID, "auction_date_time", "auction_extra", *_ITEM)),
}


def statements(name: str, bootstrap: str, *, ends: bool) -> list[str]:
    """Tables for what a query reads and writes, and the query; `@out` is the topic of its answer.

    `ends`: with what is in the topics now.
    """
    made = [_given(stream, columns, bootstrap, ends=ends) for stream, columns in QUERIES[name].streams.items()]
    return [*made, _made(name, bootstrap), f"INSERT INTO answer {QUERIES[name].text}"]


def _given(stream: str, columns: tuple[str, ...], bootstrap: str, *, ends: bool) -> str:
    fields = ", ".join(f"{name} {_TYPES.get(name, 'STRING')}" for name in columns)
    with_ = {
        "connector": "kafka",
        "topic": stream,
        "properties.bootstrap.servers": bootstrap,
        "properties.isolation.level": "read_committed",
        "scan.startup.mode": "earliest-offset",
        "format": "json",
        "json.timestamp-format.standard": "ISO-8601",
    }
    if ends:
        with_["scan.bounded.mode"] = "latest-offset"
    # Both partitions are read at once, but not alike.
    time = "ts AS CAST(date_time AS TIMESTAMP_LTZ(3)), WATERMARK FOR ts AS ts - INTERVAL '1' SECOND"
    return f"CREATE TABLE {stream} ({fields}, {time}) WITH ({_options(with_)})"


def _made(name: str, bootstrap: str) -> str:
    answer = _ANSWERS[name]
    types = {**_TYPES, "price": "DECIMAL(23, 3)"} if name == "q1" else _TYPES
    fields = ", ".join(f"{one} {types.get(one, 'STRING')}" for one in answer.columns)
    with_ = {
        "connector": "upsert-kafka" if answer.key else "kafka",
        "topic": "@out",
        "properties.bootstrap.servers": bootstrap,
        "properties.transaction.timeout.ms": "600000",
        "properties.linger.ms": "50",
        "properties.batch.size": "524288",
        "sink.delivery-guarantee": "exactly-once",
        "sink.transactional-id-prefix": "@out",
    }
    formats = ("key", "value") if answer.key else ("value",)
    for part in formats:
        with_[f"{part}.format"] = "json"
        with_[f"{part}.json.timestamp-format.standard"] = "ISO-8601"
    key = f", PRIMARY KEY ({', '.join(answer.key)}) NOT ENFORCED" if answer.key else ""
    return f"CREATE TABLE answer ({fields}{key}) WITH ({_options(with_)})"


def _options(options: Mapping[str, str]) -> str:
    return ", ".join(f"'{name}' = '{value}'" for name, value in options.items())
