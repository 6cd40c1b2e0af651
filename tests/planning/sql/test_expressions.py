import pytest

from holdfast.planning.sql.expressions import Scope, check_compute, check_filter, check_select
from holdfast.planning.types.ddl import parse_schema
from holdfast.planning.types.spark_types import OPEN, UNKNOWN, Column, RowType
from holdfast.reasons import Reason
from tests.planning.sql.scopes import CLICKS, ONE, ROWS, TWO, outline, reasons, told

# Names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "usr IS NOT NULL",
            f"there is no column usr; did you mean user? (columns: {', '.join(ROWS.names)})",
        ),
        ("home.stret = 'x'", "home has no field stret; did you mean street? (fields: street, at)"),
        ("home.at.latt > 1", "home.at has no field latt; did you mean lat? (fields: lat)"),
        ("v.x = 1", "v is INT and has no fields, so no v.x"),
        ("visits.pge IS NULL", "visits has no field pge; did you mean page? (fields: page, ms)"),
        ("visits[0].pge IS NULL", "visits[0] has no field pge; did you mean page? (fields: page, ms)"),
        ("exists(visits, x -> x.pge = 'a')", "x has no field pge; did you mean page? (fields: page, ms)"),
        ("left.user = 'x'", "left.user names a side, but only join and lookup have sides; write user"),
    ],
)
def test_a_wrong_name_is_told_with_the_nearest_right_one(text: str, message: str) -> None:
    assert told(check_filter(text, ONE)) == [(Reason.UNKNOWN_COLUMN, message)]


def test_a_long_list_of_columns_is_cut() -> None:
    rows = RowType(tuple(Column(f"c{number}", "INT") for number in range(40)))
    ((_, message),) = told(check_filter("z > 1", Scope.of(rows)))
    assert message.endswith("c10, c11 and 28 more)")


def test_rows_without_columns_say_so() -> None:
    ((_, message),) = told(check_select(["a"], Scope.of(RowType(()))))
    assert message == "there is no column a (there are no columns)"


@pytest.mark.parametrize(
    ("item", "name", "kind"),
    [
        ("user", "user", "STRING"),
        ("USER", "USER", "STRING"),
        ("user AS who", "who", "STRING"),
        ("home.street", "street", "STRING"),
        ("home.at.lat", "lat", "DOUBLE"),
        ("HOME.At.LAT AS lat", "lat", "DOUBLE"),
        ("visits.ms", "ms", "ARRAY<INT>"),
        ("counts.clicks AS n", "n", "BIGINT"),
        ("visits[0].ms AS first", "first", "INT"),
        ("`order`", "order", "INT"),
        ("v + 1 AS `next one`", "next one", "INT"),
        ("transform(visits, x -> x.ms + v) AS ms", "ms", "ARRAY<INT>"),
    ],
)
def test_names_resolve_and_are_typed_as_in_spark(item: str, name: str, kind: str) -> None:
    (result,) = check_select([item], ONE)
    assert (result.name, result.type, result.findings) == (name, kind, ())


def test_a_lambdas_variable_hides_a_column_only_inside_it() -> None:
    assert reasons(check_filter("exists(tags, v -> v = 'a')", ONE)) == []
    assert reasons(check_filter("exists(tags, w -> w = 'a') AND w > 1", ONE)) == [Reason.UNKNOWN_COLUMN]


def test_rows_with_undeclared_columns_take_any_name_as_unknown() -> None:
    scope = Scope.of(RowType((Column("a", "INT"),), closed=False))
    assert outline(check_select(["a", "b", "b.c.d", "a + b AS e", "upper(b) AS f"], scope)) == [
        ("a", "INT"), ("b", UNKNOWN), ("d", UNKNOWN), ("e", UNKNOWN), ("f", "STRING")
    ]  # fmt: skip
    assert check_filter("b > 1 AND c.d", scope).findings == ()


# What passes through


@pytest.mark.parametrize(
    ("item", "source"),
    [
        ("user", ("", "user")),
        ("User AS who", ("", "user")),
        ("(user) AS who", ("", "user")),
        ("home.street", None),
        ("upper(user) AS u", None),
        ("v + 0 AS v", None),
    ],
)
def test_an_unchanged_column_has_a_source(item: str, source: tuple[str, str] | None) -> None:
    (result,) = check_select([item], ONE)
    assert result.source == source


@pytest.mark.parametrize(
    ("item", "name", "source"),
    [
        ("ad_id", "ad_id", ("", "ad_id")),
        ("left.ad_id", "ad_id", ("left", "ad_id")),
        ("RIGHT.TS AS seen", "seen", ("right", "ts")),
        ("campaign", "campaign", ("right", "campaign")),
        ("user AS u", "u", ("left", "user")),
    ],
)
def test_a_source_names_the_side_of_a_join(item: str, name: str, source: tuple[str, str]) -> None:
    (result,) = check_select([item], TWO)
    assert (result.name, result.source, result.findings) == (name, source, ())


def test_a_name_on_both_sides_must_say_which_is_meant() -> None:
    message = "ts stands on both sides; write left.ts or right.ts AS other_name"
    assert told(check_select(["ts"], TWO)) == [(Reason.AMBIGUOUS_COLUMN, message)]
    assert reasons(check_filter("ts > TIMESTAMP '2026-01-01 00:00:00'", TWO)) == [Reason.AMBIGUOUS_COLUMN]


def test_a_name_missing_on_its_side_shows_that_sides_columns() -> None:
    message = "there is no column usr on the left side; did you mean user? (columns: ad_id, user, ts)"
    assert told(check_select(["left.usr"], TWO)) == [(Reason.UNKNOWN_COLUMN, message)]


def test_an_undeclared_name_belongs_to_the_only_open_side() -> None:
    scope = Scope.sides(CLICKS, OPEN, parse_schema("ad_id STRING"))
    assert [result.source for result in check_select(["owner", "user"], scope)] == [
        ("right", "owner"),
        ("left", "user"),
    ]
    both_open = Scope.sides(OPEN, OPEN, parse_schema("ad_id STRING"))
    assert [result.source for result in check_select(["owner", "left.owner AS o"], both_open)] == [
        None,
        ("left", "owner"),
    ]


# Stars


def test_a_star_stands_for_every_column() -> None:
    results = check_select(["*"], ONE)
    assert outline(results) == [(column.name, column.type) for column in ROWS.columns]
    assert [result.source for result in results] == [("", name) for name in ROWS.names]


def test_except_leaves_columns_out_and_must_know_them() -> None:
    names = [
        result.name for result in check_select(["* EXCEPT (home, Tags, counts, visits, `order`)", "v + 1 AS w"], ONE)
    ]
    assert names == ["ad_id", "user", "ts", "v", "flag", "w"]
    ((reason, message),) = told(check_select(["* EXCEPT (usr)"], ONE))
    assert reason == Reason.UNKNOWN_COLUMN
    assert message.startswith("EXCEPT names usr, which is no column here; did you mean user?")


def test_the_star_of_a_join_puts_the_matched_columns_once() -> None:
    results = check_select(["* EXCEPT (ts)", "left.ts AS clicked"], TWO)
    assert [(result.name, result.source) for result in results] == [
        ("ad_id", ("", "ad_id")),
        ("user", ("left", "user")),
        ("campaign", ("right", "campaign")),
        ("clicked", ("left", "ts")),
    ]


def test_a_side_has_a_star_of_its_own() -> None:
    results = check_select(["left.*", "right.campaign"], TWO)
    assert [result.name for result in results] == ["ad_id", "user", "ts", "campaign"]


def test_the_star_of_a_struct_stands_for_its_fields() -> None:
    assert outline(check_select(["home.*"], ONE)) == [("street", "STRING"), ("at", "STRUCT<lat: DOUBLE>")]
    assert reasons(check_select(["v.*"], ONE)) == [Reason.UNKNOWN_COLUMN]


def test_a_star_over_undeclared_columns_ends_with_the_rest() -> None:
    known, rest = check_select(["*"], Scope.of(RowType((Column("a", "INT"),), closed=False)))
    assert (known.name, known.is_rest) == ("a", False)
    assert (rest.name, rest.type, rest.findings, rest.is_rest) == (None, UNKNOWN, (), True)


def test_a_star_takes_nothing_but_except() -> None:
    assert reasons(check_select(["* REPLACE (1 AS v)"], ONE)) == [Reason.INVALID_EXPRESSION]


# Names of what comes out


def test_a_computed_column_needs_a_name() -> None:
    assert told(check_select(["v + 1"], ONE)) == [
        (Reason.UNNAMED_COLUMN, "v + 1 has no name; write v + 1 AS some_name")
    ]
    assert reasons(check_compute(["count(*)"], ONE, ())) == [Reason.UNNAMED_COLUMN]


@pytest.mark.parametrize(
    "items", [["v", "V"], ["v", "user AS v"], ["*", "v + 1 AS v"], ["home.street", "user AS street"]]
)
def test_two_columns_of_one_name_are_refused_at_the_second(items: list[str]) -> None:
    results = check_select(items, ONE)
    assert reasons(results) == [Reason.DUPLICATE_COLUMN]
    assert results[-1].findings[0].message.startswith("two columns are named")


# Functions


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("cuont(v) > 1", "there is no function cuont in Spark SQL; did you mean count?"),
        ("mydb.score(v) > 1", "there is no function mydb.score; only Spark's own functions are there"),
        (
            "window(ts, '1 minute') IS NULL",
            "window has no place in an expression: windows are made by an aggregate step; write window: 1m there",
        ),
    ],
)
def test_a_function_that_is_not_there_is_told(text: str, message: str) -> None:
    assert told(check_filter(text, ONE)) == [(Reason.INVALID_EXPRESSION, message)]


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ("rand() > 0.5", "rand draws by chance; use a hash"),
        ("uuid() = user", "uuid draws by chance; use a hash"),
        ("ts > current_timestamp()", "current_timestamp reads the clock; use the event time column"),
        ("ts > current_timestamp", "current_timestamp reads the clock; use the event time column"),
        ("ts > now()", "now reads the clock; use the event time column"),
        ("v > unix_timestamp()", "unix_timestamp reads the clock; use the event time column"),
        ("ts > TIMESTAMP 'now'", "TIMESTAMP 'now' reads the clock; use the event time column"),
        ("ts > DATE 'Today'", "DATE 'Today' reads the clock; use the event time column"),
        ("user = current_user()", "current_user tells who runs the app"),
        ("v > monotonically_increasing_id()", "monotonically_increasing_id tells where the row is processed"),
        ("user = input_file_name()", "input_file_name tells where the row is processed"),
        ("reflect('java.lang.Math', 'random') > 1", "reflect calls Java code Holdfast can't look into"),
        ("aes_encrypt(user, user) IS NULL", "aes_encrypt encrypts with a start value drawn by chance"),
        ("exists(tags, x -> x = uuid())", "uuid draws by chance"),
    ],
)
def test_what_a_replay_would_change_is_refused_with_a_cure(text: str, cure: str) -> None:
    ((reason, message),) = told(check_filter(text, ONE))
    assert reason == Reason.NOT_DETERMINISTIC
    assert message.startswith(cure)


@pytest.mark.parametrize("text", ["unix_timestamp(ts) > 1", "user = 'now'", "xxhash64(user) % 2 = 0", "user IS NULL",
                                  "aes_encrypt(user, user, 'ECB') IS NULL"])  # fmt: skip
def test_what_a_replay_repeats_is_taken(text: str) -> None:
    assert told(check_filter(text, ONE)) == []


def test_a_column_goes_before_a_function_without_brackets() -> None:
    assert reasons(check_select(["current_date"], Scope.of(parse_schema("current_date DATE")))) == []
    assert reasons(check_select(["current_date"], Scope.of(OPEN))) == [Reason.NOT_DETERMINISTIC]
    assert reasons(check_select(["user"], Scope.of(OPEN))) == []


@pytest.mark.parametrize("text", ["v IN (SELECT 1)", "EXISTS (SELECT 1 FROM t)", "(SELECT max(v) FROM t) > v"])
def test_a_query_inside_an_expression_is_refused(text: str) -> None:
    assert reasons(check_filter(text, ONE)) == [Reason.SUBQUERY_NOT_ALLOWED]


# Filters


@pytest.mark.parametrize(
    "text", ["flag", "NOT flag", "user LIKE 'a%' AND v BETWEEN 1 AND 3", "exists(tags, x -> x = 'a')"]
)
def test_a_filter_is_a_condition(text: str) -> None:
    result = check_filter(text, ONE)
    assert (result.name, result.type, result.findings) == (None, "BOOLEAN", ())


def test_a_filter_that_is_no_condition_is_refused_by_type() -> None:
    message = "v + 1 gives INT; a filter needs true or false, as a comparison gives"
    assert told(check_filter("v + 1", ONE)) == [(Reason.FILTER_NOT_BOOLEAN, message)]


def test_a_filter_whose_type_is_unknown_is_taken() -> None:
    assert check_filter("b", Scope.of(OPEN)).findings == ()


@pytest.mark.parametrize("text", ["count(*) > 1", "sum(v) OVER () > 1", "row_number() > 1"])
def test_aggregates_and_windows_are_refused_where_rows_stand_alone(text: str) -> None:
    assert reasons(check_filter(text, ONE)) == [Reason.AGGREGATE_NOT_ALLOWED]
    assert reasons(check_select([f"{text} AS x"], ONE)) == [Reason.AGGREGATE_NOT_ALLOWED]


@pytest.mark.parametrize("text", ["explode(tags)", "v = 1 AS x", "*"])
def test_a_filter_makes_no_rows_and_no_columns(text: str) -> None:
    assert reasons(check_filter(text, ONE)) == [Reason.INVALID_EXPRESSION]


# Rows out of arrays


@pytest.mark.parametrize("function", ["explode", "explode_outer"])
def test_explode_is_typed_by_the_elements_of_its_array(function: str) -> None:
    assert outline(check_select(["v", f"{function}(visits) AS visit"], ONE)) == [
        ("v", "INT"), ("visit", "STRUCT<page: STRING, ms: INT>")
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("item", "message"),
    [
        (
            "explode(counts) AS x",
            "explode makes rows of an array, but counts is MAP<STRING, BIGINT>; give it map_entries(counts)",
        ),
        ("explode(v) AS x", "explode makes rows of an array, but v is INT; give it an array"),
        (
            "upper(explode(tags)) AS x",
            "explode must stand alone, as in explode(a) AS x; compute with x in the next step",
        ),
        (
            "inline(visits) AS x",
            "inline can't be used in a select; use explode(a) AS x and take x.field in the next step",
        ),
        ("stack(2, 1, 2) AS x", "stack can't be used in a select; use explode(array(...)) AS x"),
        (
            "json_tuple(user, 'a') AS x",
            "json_tuple can't be used in a select; use get_json_object(text, '$.name') AS name for each of them",
        ),
    ],
)
def test_other_ways_to_make_rows_are_refused_with_the_cure(item: str, message: str) -> None:
    assert told(check_select([item], ONE)) == [(Reason.INVALID_EXPRESSION, message)]


def test_only_one_item_may_make_rows() -> None:
    message = "explode and explode_outer in one select; only one may make rows, so use two select steps"
    items = ["explode(tags) AS x", "explode_outer(tags) AS y"]
    assert told(check_select(items, ONE)) == [(Reason.INVALID_EXPRESSION, message)]
