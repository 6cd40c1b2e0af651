"""The directory of a bucket: its runs, their pieces and the merges under way, and its form in the table.

Plain values. Must not read or write tables.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass

FORMAT = 1


@dataclass(frozen=True, slots=True)
class RunPiece:
    """The entry of a piece: rows of a run that are stored as one value."""

    number: int
    rows: int
    low: int
    """The hash of its first row."""
    high: int
    """The hash of its last row."""


@dataclass(frozen=True, slots=True)
class SortedRun:
    """Rows in the order of their hashes, appended by one batch or merged from several runs."""

    number: int
    level: int
    pieces: tuple[RunPiece, ...]


@dataclass(frozen=True, slots=True)
class RunMerge:
    """A merge under way, from runs of one level into a run of the next."""

    target: int
    """The number of the run that is written."""
    sources: tuple[int, ...]
    """The numbers of the runs that are read, older ones first."""
    bound: int
    """The lowest hash that is not merged yet: rows with a lower one are in the target."""


@dataclass(frozen=True, slots=True)
class BucketDirectory:
    """The runs of a bucket, older ones first, and the merges of them that are under way."""

    runs: tuple[SortedRun, ...] = ()
    merges: tuple[RunMerge, ...] = ()

    def bound(self, run: SortedRun) -> int:
        """Return the lowest hash to read from a run: its rows with lower ones are in the target of a merge."""
        return max((merge.bound for merge in self.merges if run.number in merge.sources), default=0)

    def run(self, number: int) -> SortedRun:
        """Return a run by its number."""
        return next(run for run in self.runs if run.number == number)

    def parts(self, bucket: int, runs: Iterable[SortedRun]) -> "list[RunPart]":
        """Return these runs of the bucket, each with its bound."""
        return [RunPart(bucket, run, self.bound(run)) for run in runs]

    def text(self) -> bytes:
        """Return the directory as JSON, as it is stored."""
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
        """Return the directory from the JSON that `text` made."""
        tree = json.loads(text)
        runs = (
            SortedRun(number, level, tuple(RunPiece(*piece) for piece in pieces))
            for number, level, pieces in tree["runs"]
        )
        merges = (RunMerge(target, tuple(sources), bound) for target, sources, bound in tree["merges"])
        return cls(tuple(runs), tuple(merges))


@dataclass(frozen=True, slots=True)
class RunPart:
    """The rows of a run whose hash is at least `bound`; those with lower ones are in the target of a merge."""

    bucket: int
    run: SortedRun
    bound: int
