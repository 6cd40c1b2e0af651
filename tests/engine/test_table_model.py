"""Tables with side inputs beside a dictionary: what orders find after changes, restarts, lost disks and deaths."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast_runtime.testing import ALL_STEPS, Crashed, TestDriver
from tests.engine.fed_tables import app, each_kind, prices_of, products

KEYS = ["a", "b", "c", "d"]
changes = st.lists(st.tuples(st.sampled_from(KEYS), st.one_of(st.none(), st.integers(0, 99))), max_size=6)
between = st.sampled_from(["nothing", "nothing", "restart", "lose disk"])
deaths = st.one_of(st.none(), st.tuples(st.sampled_from(ALL_STEPS), st.integers(1, 3), st.booleans()))
rounds = st.lists(st.tuples(changes, between, deaths, st.lists(st.sampled_from(KEYS), max_size=4)), max_size=6)
Death = tuple[str, int, bool]


def run(driver: TestDriver, death: Death | None) -> None:
    """Run until nothing is left to do; a process that dies is followed by another, maybe on a new disk."""
    if death is not None:
        driver.crash_at(death[0], after=death[1])
    try:
        driver.run_until_idle()
    except Crashed:
        if death is not None and death[2]:
            driver.lose_local_state()
        driver.restart()
        driver.run_until_idle()


@each_kind
@settings(max_examples=max(12, settings().max_examples // 50))
@given(played=rounds, slots=st.integers(1, 2), few=st.booleans())
def test_orders_find_what_a_dictionary_holds(
    kind: str, played: list[tuple[Any, str, Death | None, list[str]]], slots: int, few: bool
) -> None:
    spec, model, expected = app(kind), dict[str, int](), list[int | None]()
    spec["spec"]["runtime"] = {"trigger": {"maxRecordsPerPartition": 2 if few else 1000}}
    with TestDriver(spec, slots=slots) as driver:
        for changed, then, death, skus in played:
            for key, price in changed:
                if price is None:
                    driver.feed_bytes("products", [None], key=key.encode())
                    model.pop(key, None)
                else:
                    driver.feed("products", products({key: price}))
                    model[key] = price
            run(driver, death)
            if then != "nothing":
                if then == "lose disk":
                    driver.lose_local_state()
                driver.restart()
            driver.feed("orders", [{"sku": key, "n": len(expected) + at} for at, key in enumerate(skus)])
            expected += [model.get(key) for key in skus]
            run(driver, None)
        assert prices_of(driver, range(len(expected))) == expected
        if kind == "Partitioned":
            assert {row["sku"]: row["price"] for row in driver.kept_rows("product")} == model


rows = st.lists(st.tuples(st.sampled_from(KEYS), st.integers(0, 99)), max_size=6)
versions = st.lists(st.tuples(rows, st.booleans(), between, deaths), max_size=7)


@each_kind
@settings(max_examples=max(12, settings().max_examples // 50))
@given(played=versions, slots=st.integers(1, 2), few=st.booleans())
def test_orders_find_the_last_whole_data_set(
    kind: str, played: list[tuple[list[tuple[str, int]], bool, str, Death | None]], slots: int, few: bool
) -> None:
    spec, building, served, expected = app(kind, versioned=True), dict[str, int](), dict[str, int](), list[int | None]()
    spec["spec"]["streams"][0]["control"] = True
    spec["spec"]["runtime"] = {"trigger": {"maxRecordsPerPartition": 2 if few else 1000}}
    with TestDriver(spec, slots=slots) as driver:
        for changed, ends, then, death in played:
            for key, price in changed:
                driver.feed("products", products({key: price}))
                building[key] = price
            if ends:
                driver.end("products")
                building, served = {}, building
            run(driver, death)
            if then != "nothing":
                if then == "lose disk":
                    driver.lose_local_state()
                driver.restart()
            driver.feed("orders", [{"sku": key, "n": len(expected) + at} for at, key in enumerate(KEYS)])
            expected += [served.get(key) for key in KEYS]
            run(driver, None)
        assert prices_of(driver, range(len(expected))) == expected
