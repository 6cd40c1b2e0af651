"""What a call may say, what it is refused at once, and how errors find the line of the call."""

import inspect

import pytest

from holdfast.spec.parse import SpecInvalidError
from holdfast_api import App, AppDraftError, DeclaredStream, EventTime
from holdfast_api.draft import SourceLine

CLICKS = "ad STRING, n INT, ts TIMESTAMP"


def app_with_clicks(name: str = "clicks-app") -> tuple[App, DeclaredStream]:
    app = App(name)
    log = app.log("local")
    clicks = log.stream("clicks", partitions=2, key="ad", schema=CLICKS, event_time=EventTime(column="ts"))
    log.stream("counts", key="ad")
    return app, clicks


def here() -> int:
    """Return the line that calls."""
    frame = inspect.currentframe()
    assert frame is not None
    assert frame.f_back is not None
    return frame.f_back.f_lineno


def test_an_only_item_stands_for_a_list() -> None:
    app, clicks = app_with_clicks()
    clicks.aggregate(name="counted", by="ad", window="1m", compute="count(*) AS n").to("counts")
    step = app.spec().spec.steps[0]
    assert step.aggregate is not None
    assert (step.aggregate.by, step.aggregate.compute) == (("ad",), ("count(*) AS n",))


def test_a_function_names_tables_by_their_declarations() -> None:
    app, clicks = app_with_clicks()
    ads = app.table("ads", key="ad", sources=app.log("more").stream("ad-list", key="ad"), distribution="Broadcast")
    clicks.process("m:f", name="one", by="ad", tables=ads).to("counts")
    clicks.process("m:f", name="several", by="ad", tables=[ads, "ads"]).to("counts")
    calls = [step.process for step in app.spec().spec.steps if step.process is not None]
    assert [call.tables for call in calls] == [("ads",), ("ads", "ads")]


def test_none_is_as_if_it_was_not_said() -> None:
    app, clicks = app_with_clicks()
    clicks.deduplicate(name="first", by="ad", within=None).to("counts")
    assert app.tree()["spec"]["steps"][0]["deduplicate"] == {"by": ["ad"]}


def test_a_step_without_state_is_called_by_what_it_does() -> None:
    app, clicks = app_with_clicks()
    clicks.filter("n > 1").to("counts")
    assert [step.name for step in app.spec().spec.steps] == ["clicks-filter", "clicks-filter-to-counts"]


def test_names_with_state_stay_when_a_step_comes_before() -> None:
    names = []
    for more in (False, True):
        app, clicks = app_with_clicks()
        source = clicks.filter("n > 1") if more else clicks
        source.deduplicate(name="first", by="ad").to("counts")
        names.append({step.name for step in app.spec().spec.steps if step.kept_as is not None})
    assert names == [{"first"}, {"first"}]


def test_state_without_a_name_is_refused() -> None:
    _, clicks = app_with_clicks()
    with pytest.raises(AppDraftError, match=r"deduplicate needs name=\.\.\.: what it keeps belongs to that name"):
        clicks.deduplicate(by="ad")  # type: ignore[call-arg]


def test_two_steps_of_one_derived_name_are_refused() -> None:
    _, clicks = app_with_clicks()
    clicks.filter("n > 1")
    with pytest.raises(AppDraftError, match="another step is called clicks-filter already"):
        clicks.filter("n > 2")


def test_what_another_app_declared_is_refused() -> None:
    app, clicks = app_with_clicks()
    _, other_clicks = app_with_clicks("other-app")
    with pytest.raises(AppDraftError, match="clicks belongs to app other-app, not to clicks-app"):
        clicks.join(other_clicks, name="joined", by="ad", within="1m")
    assert "steps" not in app.tree()["spec"]


def test_an_unknown_option_is_refused_with_the_nearest() -> None:
    app, clicks = app_with_clicks()
    clicks.aggregate(name="counted", by="ad", windw="1m", compute="count(*) AS n").to("counts")  # type: ignore[call-arg]
    with pytest.raises(SpecInvalidError, match=r"there is no field windw here; did you mean window\?"):
        app.spec()


def test_an_option_of_a_verb_without_options_is_refused() -> None:
    _, clicks = app_with_clicks()
    with pytest.raises(AppDraftError, match="filter has no option by"):
        clicks.filter("n > 1", by="ad")  # type: ignore[call-arg]


def test_an_error_finds_the_method_of_a_chain() -> None:
    app, clicks = app_with_clicks()
    (
        clicks.filter("n > 1")
        .deduplicate(name="first", by="ad", within="1 m")
        .to("counts")
    )  # fmt: skip
    line = here() - 3
    assert app.draft.line_of(("spec", "steps", 1, "deduplicate", "within")) == SourceLine(__file__, line, 10)


def test_an_error_finds_the_call_inside_a_function() -> None:
    app, clicks = app_with_clicks()
    keep_large(clicks)
    assert app.draft.line_of(("spec", "steps", 0)).line == inspect.getsourcelines(keep_large)[1] + 1


def keep_large(rows: DeclaredStream) -> None:
    rows.filter("n > 1")


def test_a_plan_shows_refusals_with_their_calls() -> None:
    app, clicks = app_with_clicks()
    clicks.select("n", "ts").aggregate(name="counted", by="n", window="1m", compute="count(*) AS c").to("counts")
    line = here() - 1
    view = app.plan()
    assert not view.valid
    shown = str(view)
    assert f"KeyMismatch at counted (test_declaring.py:{line}:5)" in shown
    assert "clicks.select(" in shown
    assert "repair: repartition clicks-select by n into 2" in shown
    assert '.repartition(name="clicks-select-by-n", by=["n"])' in shown
    assert "&quot;clicks-select-by-n&quot;" in view._repr_html_()


def test_a_plan_shows_errors_of_the_spec_too() -> None:
    app, clicks = app_with_clicks()
    clicks.filter("").to("counts")
    assert "clicks-app is rejected: problems: 1" in str(app.plan())


def test_a_valid_plan_is_a_picture_in_a_notebook() -> None:
    app, clicks = app_with_clicks()
    clicks.filter("n > 1").to("counts")
    view = app.plan()
    assert str(view) == "clicks-app is valid: steps: 2, tasks: 2"
    assert "<svg" in view._repr_html_()


def test_partition_counts_of_topics_can_be_said() -> None:
    app = App("on-kafka")
    kafka = app.kafka("events", "kafka:9092")
    kafka.stream("clicks", key="ad", schema=CLICKS).filter("n > 1").to(kafka.stream("kept"))
    assert app.plan({"clicks": 3}).valid
    assert repr(app) == "<App on-kafka: 1 systems, 2 streams, 2 steps>"
