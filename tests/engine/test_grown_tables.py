"""Tables whose side inputs get more partitions: no row is lost, and no older value hides a newer one."""

from datetime import timedelta

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.testing import TestDriver
from tests.engine.fed_tables import app, each_kind, priced, products


@each_kind
def test_a_grown_side_input_keeps_rows_and_order_by_key(kind: str) -> None:
    with TestDriver(app(kind)) as driver:
        driver.feed("products", products({f"p{at}": at for at in range(16)}))
        assert priced(driver, "p3") == [3]
        driver.feed("products", products({f"p{at}": 100 + at for at in range(16)}))
        for stream in ("products", "orders"):
            driver.grow(stream, 4)
        driver.restart()
        driver.feed("products", products({f"p{at}": 200 + at for at in range(0, 16, 2)}))
        driver.run_until_idle()
        driver.advance(timedelta(minutes=10))
        assert priced(driver, *(f"p{at}" for at in range(16))) == [
            200 + at if at % 2 == 0 else 100 + at for at in range(16)
        ]


def test_a_broadcast_table_grows_alone() -> None:
    with TestDriver(app("Broadcast")) as driver:
        driver.feed("products", products({f"p{at}": at for at in range(16)}))
        driver.run_until_idle()
        driver.grow("products", 8)
        driver.restart()
        driver.feed("products", products({f"p{at}": 200 + at for at in range(16)}))
        driver.run_until_idle()
        driver.advance(timedelta(minutes=10))
        assert priced(driver, *(f"p{at}" for at in range(16))) == [200 + at for at in range(16)]


def test_broadcast_growth_that_hides_which_value_is_newer_is_refused() -> None:
    with TestDriver(app("Broadcast")) as driver:
        driver.feed("products", products({f"p{at}": at for at in range(16)}))
        driver.run_until_idle()
        driver.feed("products", products({f"p{at}": 100 + at for at in range(16)}))
        driver.grow("products", 3)
        with pytest.raises(UserActionError, match=r"products grew from 2 to 3 partitions, which is not a multiple"):
            driver.restart()
        driver.grow("products", 4)
        driver.restart()
        assert priced(driver, *(f"p{at}" for at in range(16))) == [100 + at for at in range(16)]


def test_an_edit_that_would_cause_such_growth_is_refused_beforehand() -> None:
    wider = app("Broadcast")
    next(stream for stream in wider["spec"]["streams"] if stream["name"] == "products")["partitions"] = 3
    with TestDriver(app("Broadcast")) as driver:
        driver.feed("products", products({f"p{at}": at for at in range(16)}))
        driver.run_until_idle()
        with pytest.raises(UserActionError, match=r"NotAMultiple: products grew from 2 to 3 partitions"):
            driver.restart(wider)
        driver.restart(app("Broadcast"))
        assert priced(driver, *(f"p{at}" for at in range(16))) == [*range(16)]
