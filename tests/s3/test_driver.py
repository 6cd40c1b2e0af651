"""A driver's whole process, whose checkpoint is in a bucket; the test plays the operator, as tests/api does."""

from dataclasses import replace
from pathlib import Path

from tests.api.conftest import plane
from tests.api.drivers import Theatre
from tests.api.test_driver import ROWS, Driver, counted, home, kept, theatre
from tests.engine.runs import check
from tests.s3.gateway import Gateway

__all__ = ["home", "plane", "theatre"]


def test_a_driver_elsewhere_goes_on_from_the_object_store(theatre: Theatre, home: Path, gateway: Gateway) -> None:
    bucket = gateway.bucket()
    runtime = {"checkpoint": {"location": bucket.location}, "sparkConf": {"spark.ui.enabled": "false", **bucket.conf}}
    options = ("--master", "local-cluster[1,2,1024]", "--patience", "1")
    first = Driver(theatre, home, {}, *options, **runtime)
    try:
        first.until(lambda: counted(home) > 0, "some rows are through")
    finally:
        first.close()
    second = Driver(replace(theatre, orders=theatre.attempt(2)), home, {}, *options, **runtime)
    try:
        second.until(lambda: counted(home) == kept(ROWS), "all rows are through")
        second.until(lambda: "restored partition-" in second.said(), "it has restored its state")
        second.drained()
    finally:
        second.close()
    check(home, ROWS)
    run = bucket.storage.below(theatre.orders.namespace, "counted", "1")
    claim, life, owner = sorted(run.names())
    assert claim.startswith("claim-0000000002-")
    assert life.startswith("life-0000000002-")
    assert owner == "owner.json"
    assert any(name.startswith("done-") for name in run.below("query").names())
