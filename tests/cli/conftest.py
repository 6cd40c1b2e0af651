"""Runs `holdfast` in this process, in a directory of its own."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast_cli.main import main
from holdfast_runtime.streams.log.embedded_log import close_all

EXAMPLE = Path(__file__).parents[2] / "examples" / "ad-clicks" / "app.yaml"


RUNNABLE = """\
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: counts}
spec:
  systems: [{name: local, log: {}}]
  streams:
  - {name: clicks, system: local, partitions: 4, key: [ad], schema: "ad STRING"}
  - {name: counted, system: local, partitions: 2, key: [ad]}
  steps:
  - {name: count, from: [clicks], process: {function: "f:count", by: [ad], schema: "ad STRING, n BIGINT", keeps: [ad]}}
  - {name: out, from: [count], to: counted}
  runtime:
    code:
      f: |
        def count(ad, rows, state):
            yield {"ad": ad, "n": len(rows)}
"""
"""An app that this release runs."""


@dataclass(frozen=True)
class Ran:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str


Holdfast = Callable[..., Ran]


@pytest.fixture
def holdfast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Iterator[Holdfast]:
    """Run a command line; `app.yaml` in its directory is the ad-clicks example."""
    monkeypatch.chdir(tmp_path)
    Path("app.yaml").write_text(EXAMPLE.read_text(encoding="utf-8"), encoding="utf-8")

    def run(*arguments: str) -> Ran:
        try:
            code = main(arguments)
        except SystemExit as end:
            code = int(end.code or 0)
        out, err = capsys.readouterr()
        return Ran(code, out, err)

    yield run
    close_all()
