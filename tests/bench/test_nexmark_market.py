"""Nexmark's events as files: the same rows and batches for every engine, each row in the partition of its key."""

from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import parquet
from ruamel.yaml import YAML

from bench.nexmark.holdfast_run import app_tree
from bench.nexmark.market import PARTS, Mapped, Market, ends
from bench.nexmark.questions import QUESTIONS
from bench.nexmark.report import EXAMPLES
from bench.nexmark.stock import ANSWERS
from holdfast.planning.plan import PlanningFacts, plan
from holdfast.spec.parse import parse_app

MARKET = Market(3, 1000, 1000)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("bench.engine.files.cache", lambda: tmp_path)
    return MARKET.directory()


def mapped(stream: Path, batch: int) -> pa.Table:
    """Of all partitions, by time, since each has the rows of its keys."""
    starts = ends(stream, batch - 1) if batch else dict.fromkeys(range(PARTS), 0)
    bounds = [(part, starts[part], end) for part, end in ends(stream, batch).items()]
    return pa.Table.from_batches([Mapped(str(stream))(part, start, end - start) for part, start, end in bounds])


@pytest.mark.parametrize("kind", ["person", "auction", "bid"])
def test_a_batch_has_the_same_rows_for_every_engine(folder: Path, kind: str) -> None:
    for batch in range(MARKET.batches):
        rows = MARKET.nexmark.rows(kind, range(batch * MARKET.events, (batch + 1) * MARKET.events))
        assert mapped(folder / kind, batch).sort_by("date_time").combine_chunks().to_batches() == [rows]
        names = [f"{batch * PARTS + half:05d}.parquet" for half in range(PARTS)]
        read = pa.concat_tables([parquet.read_table(folder / kind / name) for name in names])
        assert read.equals(pa.table(rows))


def test_what_is_looked_up_comes_a_batch_earlier(folder: Path) -> None:
    counts = [mapped(folder / "auction-ahead", batch).num_rows for batch in range(2)]
    assert counts == [2 * 60, 60]
    assert ends(folder / "auction-ahead", 2) == ends(folder / "auction-ahead", 1)
    assert len(list((folder / "auction-ahead").glob("*.parquet"))) == 2 * PARTS


def test_a_key_is_in_one_partition(folder: Path) -> None:
    parts = [pa.ipc.open_file(folder / "bid" / f"{part}.arrow").read_all()["auction"] for part in range(PARTS)]
    assert min(map(len, parts))
    assert not set(parts[0].to_pylist()) & set(parts[1].to_pylist())


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_measured_app_has_the_steps_of_its_file(folder: Path, name: str) -> None:
    tree = YAML(typ="safe").load((EXAMPLES / f"{name}.yaml").read_text(encoding="utf-8"))
    measured = app_tree(tree, MARKET, QUESTIONS[name].ahead, folder / "out")
    result = plan(parse_app(measured), PlanningFacts())
    assert result.problems == ()
    assert [step for step in measured["spec"]["steps"] if step["name"] not in {"put", "out"}] == [
        step for step in tree["spec"]["steps"] if step["name"] != "out"
    ]


def test_stock_answers_the_queries_that_it_is_said_to_answer() -> None:
    assert {name for name, question in QUESTIONS.items() if question.stock} == set(ANSWERS)
    assert {path.stem for path in EXAMPLES.glob("*.yaml")} == set(QUESTIONS)
