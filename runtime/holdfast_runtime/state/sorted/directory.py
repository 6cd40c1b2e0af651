"""The directory of a bucket of runs: its runs, their pieces, the merges under way, and how it is stored.

Plain values. Must not read or write tables.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

FORMAT = 1


@dataclass(frozen=True, slots=True)
class RunPiece:
    """Rows of a run that are stored together."""

    number: int
    rows: int
    low: int
    """The hash of its first row."""
    high: int
    """That of its last one."""


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Rows in the order of their hashes, appended by one batch or merged from several runs."""

    number: int
    level: int
    pieces: tuple[RunPiece, ...]


@dataclass(frozen=True, slots=True)
class RunMerge:
    """A merge under way."""

    target: int
    sources: tuple[int, ...]
    bound: int
    """Rows with a lower hash are in the target."""


@dataclass(frozen=True, slots=True)
class BucketDirectory:
    """What a bucket holds; runs in the order in which their rows came."""

    runs: tuple[SortedRun, ...] = ()
    merges: tuple[RunMerge, ...] = ()

    def bound(self, run: SortedRun) -> int:
        """Return the hash from which the run's rows count."""
        return max((merge.bound for merge in self.merges if run.number in merge.sources), default=0)

    def run(self, number: int) -> SortedRun:
        """Return a run by its number."""
        return next(run for run in self.runs if run.number == number)

    def parts(self, bucket: int, runs: Iterable[SortedRun]) -> "list[RunPart]":
        """Return some of its runs, each from where its rows count."""
        return [RunPart(bucket, run, self.bound(run)) for run in runs]

    def text(self) -> bytes:
        """Return it as it is stored."""
        tree = {
            "format": FORMAT,
            "runs": [
                [run.number, run.level, [[piece.number, piece.rows, piece.low, piece.high] for piece in run.pieces]]
                for run in self.runs
            ],
            "merges": [[merge.target, list(merge.sources), merge.bound] for merge in self.merges],
        }
        return json.dumps(tree, separators=(",", ":")).encode()

    @classmethod
    def read(cls, text: bytes) -> "BucketDirectory":
        """Return the directory in a stored text."""
        tree = json.loads(text)
        runs = (
            SortedRun(number, level, tuple(RunPiece(*piece) for piece in pieces))
            for number, level, pieces in tree["runs"]
        )
        merges = (RunMerge(target, tuple(sources), bound) for target, sources, bound in tree["merges"])
        return cls(tuple(runs), tuple(merges))


@dataclass(frozen=True, slots=True)
class RunPart:
    """A run of a bucket, from the hash on from which its rows count."""

    bucket: int
    run: SortedRun
    bound: int
