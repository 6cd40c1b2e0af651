"""What a join puts out, taken apart into columns of its sides and Spark SQL over them."""

import pytest

from holdfast.planning.join_columns import JoinColumn, JoinParts, split_join
from holdfast.spec.steps import Join

LEFT, RIGHT = ["id", "n", "ts", "xs", "st"], ["ID", "n", "rate"]


def parts(*select: str) -> JoinParts:
    return split_join(Join(by=("id",), within="1m", select=select or None), LEFT, RIGHT)


def test_columns_need_no_sql_whatever_they_are_called() -> None:
    assert parts("id", "Left.n AS o", "right.n", "right.ID AS theirs", "rate") == JoinParts(
        (
            JoinColumn("both", "id", "id"),
            JoinColumn("left", "n", "o"),
            JoinColumn("right", "n", "n"),
            JoinColumn("right", "ID", "theirs"),
            JoinColumn("right", "rate", "rate"),
        ),
        (),
    )


def test_without_a_select_the_key_stands_once() -> None:
    verb = Join(by=("id",), within="1m")
    assert split_join(verb, ["a", "id"], ["b", "ID"]).columns == (
        JoinColumn("both", "id", "id"),
        JoinColumn("left", "a", "a"),
        JoinColumn("right", "b", "b"),
    )


def test_a_star_is_the_columns_of_its_side() -> None:
    assert [one.name for one in parts("left.*", "rate").columns] == [*LEFT, "rate"]
    assert {one.side for one in parts("left.*").columns} == {"left"}


@pytest.mark.parametrize(
    ("item", "written", "columns"),
    [
        ("upper(id) AS u", "upper(`__c0`) AS `u`", [("both", "id")]),
        ("left.n + right.n AS s", "`__c0` + `__c1` AS `s`", [("left", "n"), ("right", "n")]),
        ("left(id, 3) AS s", "left(`__c0`, 3) AS `s`", [("both", "id")]),
        ("left.st.f AS f", "`__c0`.`f` AS `f`", [("left", "st")]),
        ("st.f.g AS f", "`__c0`.`f`.`g` AS `f`", [("left", "st")]),
        (
            "transform(xs, n -> n + rate) AS ys",
            "transform(`__c0`, `n` -> `n` + `__c1`) AS `ys`",
            [("left", "xs"), ("right", "rate")],
        ),
        ("date_add(DAY, 1, ts) AS d", "date_add(DAY, 1, `__c0`) AS `d`", [("left", "ts")]),
        (
            "right.rate - LEFT.ts < INTERVAL 1 HOUR AS q",
            "`__c0` - `__c1` < INTERVAL '1' HOUR AS `q`",
            [("right", "rate"), ("left", "ts")],
        ),
        (
            "CASE WHEN rate IS NULL THEN 'left.n' ELSE id END AS c",
            "CASE WHEN `__c1` IS NULL THEN 'left.n' ELSE `__c0` END AS `c`",
            [("both", "id"), ("right", "rate")],
        ),
    ],
)
def test_names_in_expressions_become_columns_of_the_pairs(
    item: str, written: str, columns: list[tuple[str, str]]
) -> None:
    split = parts(item)
    assert split.after == (written,)
    assert [(one.side, one.column) for one in split.columns] == columns


def test_beside_an_expression_columns_go_through_sql_too_each_once() -> None:
    split = parts("id", "right.n AS n", "right.n * 2 AS twice")
    assert split.after == ("`__c0` AS `id`", "`__c1` AS `n`", "`__c1` * 2 AS `twice`")
    assert len(split.columns) == 2


def test_names_that_are_made_up_are_nobodys() -> None:
    split = split_join(Join(by=("id",), within="1m", select=("id || __C0 AS x",)), ["id", "__c0"], ["id"])
    assert split.after == ("`__c1` || `__c2` AS `x`",)
