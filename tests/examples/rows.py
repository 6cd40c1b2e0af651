"""What examples are fed, so that each of their outputs gets something."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

START = datetime(2026, 1, 1, tzinfo=UTC)
Rows = Sequence[dict[str, Any]]


def at(minute: float) -> datetime:
    return START + timedelta(minutes=minute)


def orders_and_payments() -> Mapping[str, Rows]:
    """`a` is settled, `b` paid too little and `c` too late; much later ones in all partitions let their time pass."""

    def order(name: str, amount: str, minute: float) -> dict[str, Any]:
        return {"order_id": name, "customer": f"of {name}", "amount": Decimal(amount), "ts": at(minute)}

    def payment(name: str, amount: str, minute: float) -> dict[str, Any]:
        return {"account": f"of {name}", "order_id": name, "amount": Decimal(amount), "ts": at(minute)}

    orders = [order("a", "10", 0), order("b", "20", 1), order("c", "30", 2)]
    payments = [payment("a", "10", 5), payment("b", "19", 6), payment("c", "30", 40)]
    orders += [order(f"last-{number}", "1", 90) for number in range(200)]
    return {
        "orders": orders,
        "payments": [*payments, *(payment(f"of nobody-{number}", "1", 90) for number in range(60))],
    }


def readings_and_limits() -> Mapping[str, Rows]:
    """Six minutes of milk in `warm` and `cold`, of bread in `fine`, four of milk in `short`; one far later."""

    def reading(lorry: str, cargo: str, celsius: float, minute: float) -> dict[str, Any]:
        return {"lorry": lorry, "cargo": cargo, "celsius": celsius, "ts": at(minute)}

    readings = [
        row
        for minute in range(6)
        for row in (
            reading("warm", "milk", 8.0 + minute, minute),
            reading("cold", "milk", 4.0, minute),
            reading("fine", "bread", 12.0, minute),
            *([reading("short", "milk", 9.0, minute)] if minute < 4 else []),
        )
    ]
    limits = [
        {"cargo": cargo, "max_celsius": most, "since": at(minute)}
        for minute in (0, 120)
        for cargo, most in (("milk", 5.0), ("bread", 20.0))
    ]
    return {"readings": [*readings, reading("later", "milk", 1.0, 120)], "limits": limits}


def plays() -> Mapping[str, Rows]:
    """Two sittings of `ann`, one play there twice and one too short, and one of `bob`."""

    def play(number: int, listener: str, minute: float, seconds: int = 200) -> dict[str, Any]:
        return {
            "play_id": f"p{number}",
            "listener": listener,
            "track": f"track-{number}",
            "artist": f"artist-{number % 2}",
            "seconds": seconds,
            "started": at(minute),
        }

    ann_plays = [play(1, "ann", 0), play(2, "ann", 10), play(2, "ann", 10), play(3, "ann", 12, 5), play(4, "ann", 40)]
    return {"plays": [*ann_plays, play(5, "bob", 5), play(6, "bob", 24)]}


def card_payments() -> Mapping[str, Rows]:
    """A small one, and soon afterwards a large one in another country."""
    return {
        "payments": [
            {"payment": name, "card": "one", "country": country, "cents": cents, "ts": at(minute)}
            for name, country, cents, minute in (("small", "AT", 100, 0), ("large", "BR", 100_000_000, 1))
        ]
    }


def positions_and_calls() -> Mapping[str, Rows]:
    """One call of a driver with two positions, and one of a driver without any."""
    place = {"lat": 48.0, "lon": 16.0}
    return {
        "positions": [
            {"city": "Wien", "driver": "ann", "lat": lat, "lon": 16.0, "ts": at(minute)}
            for minute, lat in enumerate((40.0, 49.0))
        ],
        "calls": [{"call": f"from {name}", "driver": name, "ts": at(5), **place} for name in ("ann", "bob")],
    }


def orders_and_products() -> Mapping[str, Rows]:
    """Three of a product that is known, and one of one that is not."""
    products = [{"sku": "mug", "title": "A mug", "price": Decimal("4.50"), "weight_g": 300}]
    orders = [
        {"order_id": f"of {sku}", "sku": sku, "quantity": many, "ts": START} for sku, many in (("mug", 3), ("jug", 1))
    ]
    return {"products": products, "orders": orders}


def transfers_and_accounts() -> Mapping[str, Rows]:
    """One within the limit of its account, one above it, and one of an account that does not exist."""
    account = {"account": "A1", "owner": "ann", "country": "AT", "daily_limit": Decimal(100), "opened": START.date()}
    transfers = [
        {"transfer": name, "account": account, "amount": Decimal(amount), "ts": START}
        for name, account, amount in (("small", "A1", 99), ("large", "A1", 101), ("lost", "A2", 1))
    ]
    return {"account-changes": [account], "transfers": transfers}


def clicks_of_campaigns() -> Mapping[str, Rows]:
    """Two clicks of one user and one of another on the ad of a campaign; later ones in all partitions."""
    shown = [{"ad_id": "a", "campaign": "spring", "ts": at(0)}]
    clicked = [{"ad_id": "a", "user": user, "ts": at(minute)} for user, minute in (("u", 1), ("u", 1.1), ("v", 1.2))]
    later = [f"later-{number}" for number in range(400)]
    return {
        "campaigns": [{"campaign": "spring", "owner": "ann"}],
        "impressions": [*shown, *({"ad_id": one, "campaign": one, "ts": at(60)} for one in later)],
        "clicks": [*clicked, *({"ad_id": one, "user": "w", "ts": at(60)} for one in later)],
    }


FED = {
    "account-limits": transfers_and_accounts,
    "ad-clicks": clicks_of_campaigns,
    "card-fraud": card_payments,
    "cold-chain": readings_and_limits,
    "listening-sessions": plays,
    "paid-orders": orders_and_payments,
    "priced-orders": orders_and_products,
    "taxi-pickups": positions_and_calls,
}
"""Example -> its rows by stream, of those that are particular about them."""
