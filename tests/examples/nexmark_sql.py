"""The queries of Nexmark in DuckDB's SQL, over the whole input: what the apps of `examples/nexmark` have to give.

Those of query 5 and 7 give one row where several are equally good, and updates are compared by their last row.
"""

# ruff: noqa: S608 - nobody else's text is in these queries

from collections.abc import Mapping
from dataclasses import dataclass

_RANKS = {
    "total": "true",
    "rank1": "price < 10000",
    "rank2": "price BETWEEN 10000 AND 999999",
    "rank3": "price >= 1000000",
}
_COUNTED = {"bids": "*", "bidders": "DISTINCT bidder", "auctions": "DISTINCT auction"}
_STATISTICS = ", ".join(
    f"count({what}) FILTER (WHERE {rank}) AS {name}_{plural}"
    for plural, what in _COUNTED.items()
    for name, rank in _RANKS.items()
)
_DAY = "strftime(date_time, '%Y-%m-%d')"
_TEN_SECONDS = "time_bucket(INTERVAL 10 seconds, date_time)"
_EXPANDED = """SELECT auction, bidder, price, channel, url, b.date_time, b.extra, item_name, description,
    initial_bid, reserve, a.date_time AS auction_date_time, expires, seller, category, a.extra AS auction_extra
    FROM bid b JOIN auction a ON b.auction = a.id WHERE category = 10"""
_CHANNEL = "regexp_extract(url, '(&|^)channel_id=([^&]*)', 2)"


@dataclass(frozen=True, slots=True)
class Expected:
    """What a query has to give."""

    sql: str
    by: tuple[str, ...] = ()
    """Where rows are updates: the columns of which the last row holds."""
    first: tuple[str, ...] = ()
    """Streams that are all there before the others begin: a look-up finds what came before it."""


QUERIES: Mapping[str, Expected] = {
    "q0": Expected("SELECT auction, bidder, price, date_time, extra FROM bid"),
    "q1": Expected("SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, date_time, extra FROM bid"),
    "q2": Expected("SELECT auction, price FROM bid WHERE auction % 123 = 0"),
    "q3": Expected(
        """SELECT p.id AS seller, name, city, state, a.id FROM auction a JOIN person p ON a.seller = p.id
        WHERE category = 10 AND state IN ('OR', 'ID', 'CA')""",
        first=("person",),
    ),
    "q5": Expected(
        """WITH placed AS (
            SELECT auction, unnest(generate_series(2, 10, 2)) AS later,
            time_bucket(INTERVAL 2 seconds, date_time) AS began FROM bid
        ), counted AS (
            SELECT auction, count(*) AS num, began + later * INTERVAL 1 second AS window_end FROM placed GROUP BY ALL
        )
        SELECT auction, num, window_end FROM counted
        QUALIFY row_number() OVER (PARTITION BY window_end ORDER BY num DESC, auction DESC) = 1"""
    ),
    "q7": Expected(
        f"""SELECT {_TEN_SECONDS} + INTERVAL 10 seconds AS window_end, auction, bidder, price, date_time, extra FROM bid
        QUALIFY row_number() OVER (PARTITION BY window_end ORDER BY price DESC, auction DESC) = 1"""
    ),
    "q8": Expected(
        f"""WITH p AS (SELECT id, name, {_TEN_SECONDS} AS starttime FROM person),
        a AS (SELECT DISTINCT seller, {_TEN_SECONDS} AS starttime FROM auction)
        SELECT id, name, p.starttime FROM p JOIN a ON id = seller AND p.starttime = a.starttime"""
    ),
    "q9": Expected(
        """SELECT a.id AS auction, item_name, description, initial_bid, reserve, a.date_time, expires, seller, category,
        a.extra, bidder, price, b.date_time AS bid_date_time, b.extra AS bid_extra
        FROM auction a JOIN bid b ON a.id = b.auction AND b.date_time BETWEEN a.date_time AND a.expires
        QUALIFY row_number() OVER (PARTITION BY a.id ORDER BY price DESC, b.date_time) = 1"""
    ),
    "q11": Expected(
        """WITH marked AS (
            SELECT bidder, date_time,
            coalesce(date_time - lag(date_time) OVER each >= INTERVAL 10 seconds, false) AS starts
            FROM bid WINDOW each AS (PARTITION BY bidder ORDER BY date_time)
        ), numbered AS (
            SELECT *, count_if(starts) OVER (PARTITION BY bidder ORDER BY date_time) AS session FROM marked
        )
        SELECT bidder, min(date_time) AS window_start, max(date_time) + INTERVAL 10 seconds AS window_end,
        count(*) AS bid_count FROM numbered GROUP BY bidder, session"""
    ),
    "q13": Expected(
        """SELECT auction, bidder, price, date_time, value FROM bid JOIN side_input ON auction % 10000 = key""",
        first=("side-input",),
    ),
    "q14": Expected(
        """SELECT auction, bidder, CAST(0.908 * price AS DECIMAL(23, 3)) AS price, date_time, extra,
        CASE WHEN hour(date_time) BETWEEN 8 AND 18 THEN 'dayTime'
        WHEN hour(date_time) <= 6 OR hour(date_time) >= 20 THEN 'nightTime' ELSE 'otherTime' END AS bid_time_type,
        length(extra) - length(replace(extra, 'c', '')) AS c_counts
        FROM bid WHERE 0.908 * price > 1000000 AND 0.908 * price < 50000000"""
    ),
    "q15": Expected(f"SELECT {_DAY} AS day, {_STATISTICS} FROM bid GROUP BY day", by=("day",)),
    "q16": Expected(
        f"""SELECT channel, {_DAY} AS day, max(strftime(date_time, '%H:%M')) AS minute, {_STATISTICS}
        FROM bid GROUP BY channel, day""",
        by=("channel", "day"),
    ),
    "q17": Expected(
        """SELECT auction, date_trunc('day', date_time) AS window_start, count(*) AS total_bids,
        count_if(price < 10000) AS rank1_bids, count_if(price BETWEEN 10000 AND 999999) AS rank2_bids,
        count_if(price >= 1000000) AS rank3_bids, min(price) AS min_price, max(price) AS max_price,
        avg(price) AS avg_price, CAST(sum(price) AS BIGINT) AS sum_price
        FROM bid GROUP BY auction, window_start""",
        by=("auction", "window_start"),
    ),
    "q18": Expected(
        "SELECT * FROM bid QUALIFY row_number() OVER (PARTITION BY bidder, auction ORDER BY date_time DESC) = 1",
        by=("bidder", "auction"),
    ),
    "q19": Expected(
        """SELECT *, row_number() OVER (PARTITION BY auction ORDER BY price DESC, date_time) AS rank_number FROM bid
        QUALIFY rank_number <= 10""",
        by=("auction", "rank_number"),
    ),
    "q20": Expected(_EXPANDED, first=("auction",)),
    "q20-join": Expected(_EXPANDED),
    "q21": Expected(
        f"""SELECT auction, bidder, price, channel, CASE lower(channel) WHEN 'apple' THEN '0' WHEN 'google' THEN '1'
        WHEN 'facebook' THEN '2' WHEN 'baidu' THEN '3' ELSE {_CHANNEL} END AS channel_id FROM bid
        WHERE lower(channel) IN ('apple', 'google', 'facebook', 'baidu') OR {_CHANNEL} <> ''"""
    ),
    "q22": Expected(
        """SELECT auction, bidder, price, channel, split_part(url, '/', 4) AS dir1, split_part(url, '/', 5) AS dir2,
        split_part(url, '/', 6) AS dir3 FROM bid"""
    ),
}
"""Query -> what it has to give; the clock decides what query 12 gives."""
