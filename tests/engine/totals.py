"""An app of one step that sums orders by customer, with what is true of it when each order counted once."""

from typing import Any

from holdfast_runtime.testing import TestDriver

CODE = """
def total(customer, rows, state):
    if not rows:
        yield {"customer": customer, "n": -1, "total": state["total"]}
    for row in rows:
        if row["amount"] < 0:
            raise ValueError("a negative amount")
        state["total"] = state.get("total", 0) + row["amount"]
        yield {"customer": customer, "n": row["n"], "total": state["total"]}
    if rows and rows[-1]["amount"] == 60:
        state.at_time(state.now + 60_000)
"""


def app(*, most: int = 50_000, code: str = CODE, **orders: Any) -> dict[str, Any]:
    stream = {
        "name": "orders",
        "system": "shop",
        "partitions": 2,
        "key": ["customer"],
        "schema": "customer STRING, n BIGINT, amount BIGINT",
    }
    process = {"function": "totals:total", "by": ["customer"], "schema": "customer STRING, n BIGINT, total BIGINT"}
    return {
        "apiVersion": "holdfast.dev/v1alpha1",
        "kind": "StreamApp",
        "metadata": {"name": "totals"},
        "spec": {
            "systems": [{"name": "shop", "log": {}}],
            "streams": [
                stream | orders,
                {"name": "totals", "system": "shop", "partitions": 2, "key": ["customer"]},
                {"name": "unreadable", "system": "shop", "partitions": 1},
            ],
            "steps": [
                {"name": "summed", "from": ["orders"], "process": process | {"keeps": ["customer"]}},
                {"name": "out", "from": ["summed"], "to": "totals"},
            ],
            "runtime": {"code": {"totals": code}, "trigger": {"maxRecordsPerPartition": most}},
        },
    }


def orders(*numbers: int, amount: int = 1) -> list[dict[str, Any]]:
    return [{"customer": f"customer-{n % 4}", "n": n, "amount": amount} for n in numbers]


def settled(driver: TestDriver, count: int) -> None:
    """Each of so many orders has had its effect once, in order."""
    driver.run_until_idle()
    totals = [row for row in driver.rows("totals") if row["n"] >= 0]
    assert sorted(row["n"] for row in totals) == list(range(count))
    for customer in {row["customer"] for row in totals}:
        its = [row for row in totals if row["customer"] == customer]
        assert [row["n"] for row in its] == sorted(row["n"] for row in its)
        assert [row["total"] for row in its] == list(range(1, len(its) + 1))
        assert driver.state("summed", customer) == {"total": len(its)}
