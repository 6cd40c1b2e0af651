"""What costs less than a new run where state can't follow an edit: it is named, it works, and all else goes on."""

import re
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.testing import TestDriver
from tests.engine.fed_tables import priced
from tests.engine.file_tables import filed, put
from tests.engine.stateful_app import APP, CLICK

Tree = dict[str, Any]
Edit = Callable[[Tree], None]
COLUMNS = "ad STRING, user STRING, n BIGINT, ts TIMESTAMP, sent TIMESTAMP"
COUNT = (
    "def count(key, rows, state):\n"
    "    state['n'] = state.get('n', 0) + len(list(rows))\n"
    "    yield {'k': str(key), 'n': state['n']}\n"
)
STEPS: list[Tree] = [
    {"name": "plain", "from": ["clicks"], "select": ["ad", "user", "sent"]},
    {"name": "note", "from": ["clicks"], "toTable": "last"},
    {"name": "seen", "from": ["clicks"], "lookup": {"table": "last", "by": ["ad"], "select": ["ad", "right.n AS n"]}},
    {
        "name": "calls",
        "from": ["clicks"],
        "process": {"function": "f:count", "by": ["ad"], "schema": "k STRING, n INT"},
    },
]


def app() -> Tree:
    """Every verb that keeps something, a table of side inputs and one that steps write."""
    tree = deepcopy(APP)
    spec = tree["spec"]
    spec["tables"].append({"name": "last", "key": ["ad"], "schema": COLUMNS})
    spec["steps"] += deepcopy(STEPS)
    for name in ("by-user", "named"):
        step(tree, name)["from"] = ["plain"]
    spec["runtime"] = {"code": {"f": COUNT}}
    return tree


def step(tree: Tree, name: str) -> Tree:
    return next(one for one in tree["spec"]["steps"] if one["name"] == name)


def table(tree: Tree, name: str) -> Tree:
    return next(one for one in tree["spec"]["tables"] if one["name"] == name)


def changed(name: str, verb: str, **fields: object) -> Edit:
    return lambda tree: step(tree, name)[verb].update(fields)


def changed_table(name: str, **fields: object) -> Edit:
    return lambda tree: table(tree, name).update(fields)


def of_other_type(column: str) -> Edit:
    """A column of the clicks becomes text; what else holds it is left out, so that one thing is in the way."""

    def edit(tree: Tree) -> None:
        spec, out = tree["spec"], ("note", "seen", "matched")
        spec["streams"][0]["schema"] = re.sub(rf"\b{column} \w+", f"{column} STRING", spec["streams"][0]["schema"])
        spec["tables"] = [one for one in spec["tables"] if one["name"] != "last"]
        spec["steps"] = [one for one in spec["steps"] if one["name"] not in out]

    return edit


def renamed(*names: str) -> Edit:
    """These steps, and what reads them, under other names."""

    def rename(tree: Tree) -> None:
        for app_step in tree["spec"]["steps"]:
            app_step["name"] += "-2" if app_step["name"] in names else ""
            app_step["from"] = [f"{name}-2" if name in names else name for name in app_step["from"]]

    return rename


def renamed_table(name: str, *writers: str) -> Edit:
    def rename(tree: Tree) -> None:
        table(tree, name)["name"] = f"{name}-2"
        for app_step in tree["spec"]["steps"]:
            app_step["name"] += "-2" if app_step["name"] in writers else ""
            if app_step.get("toTable") == name:
                app_step["toTable"] = f"{name}-2"
            if app_step.get("lookup", {}).get("table") == name:
                app_step["lookup"]["table"] = f"{name}-2"

    return rename


def with_key_of_two(tree: Tree) -> None:
    table(tree, "last")["key"] = ["ad", "user"]
    step(tree, "seen")["lookup"]["by"] = ["ad", "user"]


EMPTY, ANEW = "then it alone starts from nothing", "then it alone is loaded anew, from its side inputs"
NOTHING = "it keeps nothing of its own"
SITUATIONS: dict[str, tuple[Edit, str, Edit]] = {
    "another window": (
        changed("windows", "aggregate", window="5m"),
        f"give windows another name: {EMPTY}",
        renamed("windows"),
    ),
    "one aggregate more": (
        changed("visits", "aggregate", compute=["count(*) AS n", "max(n) AS most"]),
        f"give visits another name: {EMPTY}",
        renamed("visits"),
    ),
    "an aggregate by two columns": (
        changed("windows", "aggregate", by=["ad", "user"]),
        f"give windows another name: {EMPTY}",
        renamed("windows"),
    ),
    "rows without partner too": (
        changed("matched", "join", type="Left"),
        f"give matched another name: {EMPTY}",
        renamed("matched"),
    ),
    "duplicates by two columns": (
        changed("first", "deduplicate", by=["ad", "user"]),
        f"give first another name: {EMPTY}",
        renamed("first"),
    ),
    "a function by two columns": (
        changed("calls", "process", by=["ad", "user"]),
        f"give calls another name: {EMPTY}",
        renamed("calls"),
    ),
    "a column of another type in a window": (
        of_other_type("n"),
        f"give windows another name: {EMPTY}",
        renamed("windows"),
    ),
    "a column of another type on its way": (
        of_other_type("sent"),
        "give by-user another name: then rows not yet read from its stream are given up, and all else goes on",
        renamed("by-user"),
    ),
    "other columns of a table": (
        changed_table("owner", select=["ad", "owner AS name"]),
        f"give table owner another name: {ANEW}",
        renamed_table("owner"),
    ),
    "other columns of a table that nobody waits for": (
        changed_table("owner", select=["ad", "owner AS name"], bootstrap=False),
        f"give table owner another name: {ANEW}",
        renamed_table("owner"),
    ),
    "a table on each host": (
        changed_table("owner", distribution="Broadcast"),
        f"give table owner another name: {ANEW}",
        renamed_table("owner"),
    ),
    "another key of a table that steps write": (
        with_key_of_two,
        f"give table last and the steps that write it other names: {EMPTY}",
        renamed_table("last", "note", "seen"),
    ),
    "a look-up by other columns": (
        with_key_of_two,
        f"give seen another name: {NOTHING}",
        renamed_table("last", "note", "seen"),
    ),
}
"""What is edited -> the edit, what the refusal names, and that done."""


def live(driver: TestDriver, tree: Tree) -> None:
    """A click, with columns of the types that they have by now."""
    schema = tree["spec"]["streams"][0]["schema"]
    driver.feed("clicks", [CLICK | {name: str(CLICK[name]) for name in ("n", "sent") if f"{name} STRING" in schema}])
    driver.run_until_idle()


@pytest.mark.parametrize("situation", SITUATIONS)
def test_what_costs_less_than_a_new_run_works_as_named(situation: str) -> None:
    edit, named, cheaper = SITUATIONS[situation]
    tree = app()
    with TestDriver(deepcopy(tree)) as driver:
        driver.feed("owners", [{"ad": "a", "owner": "o"}])
        live(driver, tree)
        edit(tree)
        with pytest.raises(UserActionError) as refused:
            driver.restart(deepcopy(tree))
        assert f"Put it back; or {named}; or set a new spec.runId" in str(refused.value)
        cheaper(tree)
        driver.restart(deepcopy(tree))
        live(driver, tree)
        assert [row["n"] for row in driver.rows("counted")] == [1, 2], "nobody else has lost anything"
        last = driver.rows("looked-up")[-1]
        assert last.get("name", last.get("owner")) == "o", "what is loaded anew has what it had"


def test_a_step_left_out_gives_up_its_own_state_alone() -> None:
    tree = app()
    with TestDriver(deepcopy(tree)) as driver:
        live(driver, tree)
        tree["spec"]["steps"] = [one for one in tree["spec"]["steps"] if one["name"] not in ("windows", "windows-out")]
        driver.restart(tree)
        live(driver, tree)
        assert [row["n"] for row in driver.rows("counted")] == [1, 2]


def test_a_renamed_file_table_of_other_columns_is_loaded_anew(tmp_path: Path) -> None:
    put(tmp_path / "files", {"a": 3})
    before = filed(tmp_path / "files")
    after = filed(tmp_path / "files", select=["sku", "price AS cents"])
    with TestDriver(before, tmp_path / "run") as driver:
        assert priced(driver, "a") == [3]
        with pytest.raises(UserActionError, match=r"give table product another name: .* loaded anew, from its files;"):
            driver.restart(deepcopy(after))
        after["spec"]["tables"][0]["name"] = "product-2"
        after["spec"]["steps"][0]["lookup"]["table"] = "product-2"
        driver.restart(after)
        driver.feed("orders", [{"sku": "a", "n": 1}])
        driver.run_until_idle()
        assert driver.rows("out")[-1]["cents"] == 3
