"""Whole runs on real Spark with a table of files that change: each order once, and no version after a newer one."""

import json
import random
from pathlib import Path

import pyarrow as pa
from ruamel.yaml import YAML

from tests.engine.file_tables import filed, put
from tests.engine.runs import Run, append, written

VERSIONS, ORDERS = 4, 40
SKUS = ("a", "b", "c")


def test_killed_drivers_serve_no_older_version_and_lose_no_order(tmp_path: Path) -> None:
    app, data, files, chance = tmp_path / "app.yaml", tmp_path / "data", tmp_path / "files", random.Random(3)  # noqa: S311
    location = {"location": f"file://{files}", "format": "json", "every": "1s"}
    YAML(typ="safe", pure=True).dump(filed(files, files=location), app)
    for version in range(1, VERSIONS):
        put(files, dict.fromkeys(SKUS, version))
        order(data, version)
        with Run(app, data) as run:
            run.until("progress")
            put(files, dict.fromkeys(SKUS, version + 1))
            if chance.random() < 0.5:
                run.until("progress")
            run.killed()
    order(data, VERSIONS)
    with Run(app, data, "--until-idle") as run:
        run.ended()
    rows = written(data, "out")
    assert sorted(row["n"] for row in rows) == list(range(ORDERS, (VERSIONS + 1) * ORDERS))
    for sku in SKUS:
        prices = [row["price"] for row in rows if row["sku"] == sku]
        assert prices == sorted(prices)
        assert prices[-1] == VERSIONS


def order(data: Path, version: int) -> None:
    numbers = range(version * ORDERS, (version + 1) * ORDERS)
    skus = [SKUS[number % len(SKUS)] for number in numbers]
    values = [json.dumps({"sku": sku, "n": number}).encode() for sku, number in zip(skus, numbers, strict=True)]
    keys = pa.array([sku.encode() for sku in skus], pa.binary())
    append(data, "orders", keys, pa.array(values, pa.binary()))
