"""The queries of Nexmark in Flink SQL, each with the columns that it reads of each stream.

`ts` is the event time in the milliseconds that Flink works with; the whole one is `date_time`. Columns come out under
the names that the other engines use.
"""

# ruff: noqa: S608 - the texts are ours

from collections.abc import Mapping
from dataclasses import dataclass

_BID = ("auction", "bidder", "price", "date_time", "extra")
_WHOLE_BID = ("auction", "bidder", "price", "channel", "url", "date_time", "extra")
_CONVERTED = "CAST(0.908 * price AS DECIMAL(23, 3)) AS price"
_CHANNEL = "REGEXP_EXTRACT(url, '(&|^)channel_id=([^&]*)', 2)"
_KNOWN = "LOWER(channel) IN ('apple', 'google', 'facebook', 'baidu')"
_SPAN = "INTERVAL '10' SECOND"
_ITEM = ("item_name", "description", "initial_bid", "reserve", "expires", "seller", "category")


@dataclass(frozen=True, slots=True)
class FlinkQuery:
    """One query."""

    streams: Mapping[str, tuple[str, ...]]
    """Stream -> the columns that are read; `date_time` must be among them."""
    text: str


QUERIES: Mapping[str, FlinkQuery] = {
    "q0": FlinkQuery({"bid": _BID}, f"SELECT {', '.join(_BID)} FROM bid"),
    "q1": FlinkQuery({"bid": _BID}, f"SELECT auction, bidder, {_CONVERTED}, date_time, extra FROM bid"),
    "q2": FlinkQuery(
        {"bid": ("auction", "price", "date_time")}, "SELECT auction, price FROM bid WHERE MOD(auction, 123) = 0"
    ),
    "q3": FlinkQuery(
        {"person": ("id", "name", "city", "state", "date_time"), "auction": ("id", "seller", "category", "date_time")},
        """SELECT A.seller, A.id, P.name, P.city, P.state FROM auction AS A JOIN person AS P ON A.seller = P.id
        WHERE A.category = 10 AND P.state IN ('OR', 'ID', 'CA')""",
    ),
    "q5": FlinkQuery(
        {"bid": ("auction", "date_time")},
        f"""SELECT auction, num, window_end FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY num DESC, auction DESC) AS place
          FROM (
            SELECT auction, COUNT(*) AS num, window_start, window_end
            FROM TABLE(HOP(TABLE bid, DESCRIPTOR(ts), INTERVAL '2' SECOND, {_SPAN}))
            GROUP BY auction, window_start, window_end)) WHERE place = 1""",
    ),
    "q7": FlinkQuery(
        {"bid": _BID},
        f"""SELECT window_end, auction, bidder, price, date_time, extra FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY window_start, window_end ORDER BY price DESC) AS place
          FROM TABLE(TUMBLE(TABLE bid, DESCRIPTOR(ts), {_SPAN}))) WHERE place = 1""",
    ),
    "q8": FlinkQuery(
        {"person": ("id", "name", "date_time"), "auction": ("seller", "date_time")},
        f"""SELECT P.id, P.name, P.window_start AS starttime FROM (
          SELECT id, name, window_start, window_end FROM TABLE(TUMBLE(TABLE person, DESCRIPTOR(ts), {_SPAN}))
          GROUP BY id, name, window_start, window_end) AS P
        JOIN (
          SELECT seller, window_start, window_end FROM TABLE(TUMBLE(TABLE auction, DESCRIPTOR(ts), {_SPAN}))
          GROUP BY seller, window_start, window_end) AS A
        ON P.id = A.seller AND P.window_start = A.window_start AND P.window_end = A.window_end""",
    ),
    "q11": FlinkQuery(
        {"bid": ("bidder", "date_time")},
        f"""SELECT bidder, window_start, window_end, COUNT(*) AS bid_count
        FROM TABLE(SESSION(TABLE bid PARTITION BY bidder, DESCRIPTOR(ts), {_SPAN}))
        GROUP BY bidder, window_start, window_end""",
    ),
    "q13": FlinkQuery(
        {"bid": ("auction", "bidder", "price", "date_time")},
        "SELECT auction, bidder, price, date_time, side(MOD(auction, 10000)) AS `value` FROM bid",
    ),
    "q14": FlinkQuery(
        {"bid": _BID},
        f"""SELECT auction, bidder, {_CONVERTED},
          CASE WHEN EXTRACT(HOUR FROM date_time) BETWEEN 8 AND 18 THEN 'dayTime'
            WHEN EXTRACT(HOUR FROM date_time) <= 6 OR EXTRACT(HOUR FROM date_time) >= 20 THEN 'nightTime'
            ELSE 'otherTime' END AS bid_time_type,
          date_time, extra,
          CAST(CHAR_LENGTH(extra) - CHAR_LENGTH(REPLACE(extra, 'c', '')) AS BIGINT) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000""",
    ),
    "q17": FlinkQuery(
        {"bid": ("auction", "price", "date_time")},
        """SELECT auction, FLOOR(ts TO DAY) AS window_start, FLOOR(ts TO DAY) + INTERVAL '1' DAY AS window_end,
          COUNT(*) AS total_bids,
          COUNT(*) FILTER (WHERE price < 10000) AS rank1_bids,
          COUNT(*) FILTER (WHERE price >= 10000 AND price < 1000000) AS rank2_bids,
          COUNT(*) FILTER (WHERE price >= 1000000) AS rank3_bids,
          MIN(price) AS min_price, MAX(price) AS max_price, AVG(CAST(price AS DOUBLE)) AS avg_price,
          SUM(price) AS sum_price
        FROM bid GROUP BY auction, FLOOR(ts TO DAY)""",
    ),
    "q18": FlinkQuery(
        {"bid": _WHOLE_BID},
        f"""SELECT {", ".join(_WHOLE_BID)} FROM (
          SELECT *, ROW_NUMBER() OVER (PARTITION BY bidder, auction ORDER BY ts DESC) AS place FROM bid)
        WHERE place = 1""",
    ),
    "q20": FlinkQuery(
        {"bid": _WHOLE_BID, "auction": ("id", *_ITEM, "date_time", "extra")},
        f"""SELECT {", ".join(f"B.{name}" for name in _WHOLE_BID)},
          A.date_time AS auction_date_time, A.extra AS auction_extra, {", ".join(f"A.{name}" for name in _ITEM)}
        FROM bid AS B JOIN auction AS A ON B.auction = A.id WHERE A.category = 10""",
    ),
    "q21": FlinkQuery(
        {"bid": ("auction", "bidder", "price", "channel", "url", "date_time")},
        f"""SELECT auction, bidder, price, channel,
          CASE LOWER(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1' WHEN 'facebook' THEN '2'
            WHEN 'baidu' THEN '3' ELSE {_CHANNEL} END AS channel_id
        FROM bid WHERE {_KNOWN} OR {_CHANNEL} IS NOT NULL""",
    ),
    "q22": FlinkQuery(
        {"bid": ("auction", "bidder", "price", "channel", "url", "date_time")},
        f"""SELECT auction, bidder, price, channel,
          {", ".join(f"SPLIT_INDEX(url, '/', {at + 2}) AS dir{at}" for at in (1, 2, 3))} FROM bid""",
    ),
}
