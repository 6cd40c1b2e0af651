"""Commands on an app file in Python: what it declares, where its errors are, and files that declare nothing."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Holdfast

HEAD = """\
from holdfast_api import App, EventTime

app = App("clicks-app")
log = app.log("local")
clicks = log.stream(
    "clicks", partitions=2, key="ad", schema="ad STRING, n INT, ts TIMESTAMP", event_time=EventTime(column="ts")
)
"""
GOOD = f"""\
{HEAD}
(
    clicks.filter("n > 1")
    .aggregate(name="counted", by="ad", window="1m", compute="count(*) AS rows")
    .to(log.stream("counts", key="ad"))
)
"""


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    paths = list(sys.path)
    yield
    sys.path[:] = paths


def write(text: str, path: str = "app.py") -> None:
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text(text, encoding="utf-8")


def test_a_file_of_python_is_planned_as_one_of_yaml(holdfast: Holdfast) -> None:
    write(GOOD)
    ran = holdfast("plan", "app.py")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.splitlines()[-1] == "valid: 1 input, 3 steps, 2 tasks, no Spark SQL"


def test_problems_are_at_the_lines_of_calls(holdfast: Holdfast) -> None:
    write(GOOD.replace('by="ad"', 'by="n"'))
    ran = holdfast("plan", "app.py")
    assert ran.code == 1
    assert "KeyMismatch at counted (app.py:11:6)" in ran.out
    assert 'from clicks-filter: .repartition(name="clicks-filter-by-n", by=["n"])' in ran.out


def test_errors_of_the_spec_are_at_the_lines_of_calls(holdfast: Holdfast) -> None:
    write(GOOD.replace('"1m"', '"1 m"').replace('key="ad", schema', 'kei="ad", schema'))
    ran = holdfast("plan", "app.py")
    assert ran.code == 1
    assert "app.py:5:10: spec.streams[0].kei: there is no field kei here; did you mean key?" in ran.out
    assert "app.py:11:6: spec.steps[1].aggregate.window: must be a duration" in ran.out


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x = = 1\n", "app.py:1: not Python: invalid syntax"),
        ("x = 1\ny = x / 0\n", "app.py:2: ZeroDivisionError: division by zero"),
        ("import clikcs\n", "app.py:1: ModuleNotFoundError: No module named 'clikcs'"),
        ("raise SystemExit('no')\n", "app.py:1: SystemExit: no"),
        ("x = 1\n", "app.py declares no app: app = App(...), of holdfast_api"),
        (GOOD.replace("app", "first") + "second = App('b')\n", "app.py declares 2 apps: call the one that is meant"),
        (f"{HEAD}\nclicks.deduplicate(by='ad')\n", "app.py:9: deduplicate needs name=...: what it keeps"),
        (f"{HEAD}\nclicks.apply(lambda batch: batch)\n", "app.py:9: a lambda has no name"),
        (f"{HEAD}\nEventTime(lateness='10 m')\n", "app.py:9: EventTime.lateness: must be a duration, e.g. 500ms"),
        (f"{HEAD}\nEventTime(latenes='10m')\n", "app.py:9: EventTime.latenes: there is no field latenes here"),
    ],
)
def test_an_error_of_the_file_is_one_line(holdfast: Holdfast, text: str, message: str) -> None:
    write(text)
    ran = holdfast("plan", "app.py")
    assert ran.code == 2
    assert ran.err.startswith(f"holdfast: {message}")
    assert len(ran.err.splitlines()) == 1


def test_what_a_file_prints_is_not_in_the_output(holdfast: Holdfast) -> None:
    write(f"print('hello')\n{GOOD}")
    ran = holdfast("plan", "app.py", "-o", "json")
    assert ran.out.startswith("{")
    assert ran.err == "hello\n"


def test_an_app_in_a_variable_of_another_name_will_do(holdfast: Holdfast) -> None:
    write(GOOD.replace("app = App", "clicks_app = App").replace("app.log", "clicks_app.log"))
    assert holdfast("plan", "app.py").code == 0


def test_modules_beside_a_file_are_its_own(holdfast: Holdfast) -> None:
    for folder, window in (("old", "1m"), ("new", "2m")):
        write(f"LENGTH = '{window}'\n", f"{folder}/lengths.py")
        write(f"from lengths import LENGTH\n{GOOD}".replace('"1m"', "LENGTH"), f"{folder}/app.py")
    ran = holdfast("diff", "old/app.py", "new/app.py")
    assert "spec.steps[counted].aggregate.window" in ran.out


def test_a_file_of_python_is_not_rewritten(holdfast: Holdfast) -> None:
    write(GOOD)
    ran = holdfast("plan", "app.py", "--fix")
    assert (ran.code, ran.out) == (2, "")
    assert "app.py is Python, which --fix does not rewrite" in ran.err


def test_a_function_of_the_file_goes_with_the_app(holdfast: Holdfast) -> None:
    write(f"{HEAD}\ndef same(batch):\n    return batch\n\nclicks.apply(same).to(log.stream('out'))\n")
    assert holdfast("plan", "app.py").code == 0
    write('{"ad": "a", "n": 1, "ts": "2026-01-01T00:00:00Z"}\n', "rows.jsonl")
    assert holdfast("feed", "app.py", "clicks", "rows.jsonl").code == 0


def test_yaml_is_written_as_python(holdfast: Holdfast) -> None:
    source = holdfast("python", "app.yaml").out
    write(source, "written.py")
    assert 'enriched = matched.lookup(campaign_info, name="enriched", by=["campaign"])' in source
    assert holdfast("diff", "app.yaml", "written.py").out == "app.yaml and written.py mean the same\n"


def test_what_only_kubernetes_knows_is_left_out_aloud(holdfast: Holdfast) -> None:
    yaml = Path("app.yaml").read_text(encoding="utf-8")
    write(yaml.replace("name: ad-clicks", "name: ad-clicks\n  namespace: ads"), "app.yaml")
    ran = holdfast("python", "app.yaml")
    assert (ran.code, ran.err) == (0, "warning: left out, as the app does not know them: metadata.namespace\n")


def test_an_invalid_file_is_not_written_as_python(holdfast: Holdfast) -> None:
    write("kind: StreamApp\n", "app.yaml")
    ran = holdfast("python", "app.yaml")
    assert (ran.code, ran.out) == (1, "")
