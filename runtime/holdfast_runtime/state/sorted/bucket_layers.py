"""The layers of a bucket, their pieces and the merges under way, and the form of all this in the table.

Plain values. Must not read or write tables.
"""

import functools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

FORMAT = 1
_REMEMBERED = 256
"""A batch reads the same text several times, and the next batch most of them again."""


@dataclass(frozen=True, slots=True)
class LayerPiece:
    """The entry of a piece: rows of a layer that are stored as one value."""

    number: int
    rows: int
    low: int
    """The hash of its first row."""
    high: int
    """The hash of its last row."""


@dataclass(frozen=True, slots=True)
class Layer:
    """Rows in the order of their hashes, appended by one batch or merged from several layers."""

    number: int
    level: int
    pieces: tuple[LayerPiece, ...]

    @property
    def rows(self) -> int:
        """How many rows it has, with those that a merge has taken from pieces that are left."""
        return sum(piece.rows for piece in self.pieces)


@dataclass(frozen=True, slots=True)
class LayerMerge:
    """A merge under way, from layers of one level into a layer of the next."""

    target: int
    """The number of the layer that is written."""
    sources: tuple[int, ...]
    """The numbers of the layers that are read, older ones first."""
    bound: int
    """The lowest hash that is not merged yet: rows with a lower one are in the target."""


@dataclass(frozen=True, slots=True)
class BucketLayers:
    """The layers of a bucket, older ones first, and the merges of them that are under way."""

    layers: tuple[Layer, ...] = ()
    merges: tuple[LayerMerge, ...] = ()

    def bound(self, layer: Layer) -> int:
        """Return the lowest hash to read from a layer: its rows with lower ones are in the target of a merge."""
        return max((merge.bound for merge in self.merges if layer.number in merge.sources), default=0)

    def layer(self, number: int) -> Layer:
        """Return a layer by its number."""
        return next(layer for layer in self.layers if layer.number == number)

    def merging(self, sources: Sequence[Layer], target: int) -> "BucketLayers":
        """Return the layers with a merge of these ones, older ones first, that has not begun, into a new layer."""
        level = max(layer.level for layer in sources) + 1
        # Right behind its newest source: layers stay in the order in which their rows came.
        index = self.layers.index(sources[-1]) + 1
        layers = (*self.layers[:index], Layer(target, level, ()), *self.layers[index:])
        return BucketLayers(layers, (*self.merges, LayerMerge(target, tuple(layer.number for layer in sources), 0)))

    def parts(self, bucket: int, layers: Iterable[Layer]) -> "list[LayerPart]":
        """Return these layers of the bucket, each with its bound."""
        return [LayerPart(bucket, layer, self.bound(layer)) for layer in layers]

    def text(self) -> bytes:
        """Return the layers and merges as JSON, as they are stored."""
        tree = {
            "format": FORMAT,
            "runs": [
                [
                    layer.number,
                    layer.level,
                    [[piece.number, piece.rows, piece.low, piece.high] for piece in layer.pieces],
                ]
                for layer in self.layers
            ],
            "merges": [[merge.target, list(merge.sources), merge.bound] for merge in self.merges],
        }
        return json.dumps(tree, separators=(",", ":")).encode()

    @classmethod
    @functools.lru_cache(_REMEMBERED)
    def read(cls, text: bytes) -> "BucketLayers":
        """Return the layers and merges from the JSON that `text` made."""
        tree = json.loads(text)
        layers = (
            Layer(number, level, tuple(LayerPiece(*piece) for piece in pieces))
            for number, level, pieces in tree["runs"]
        )
        merges = (LayerMerge(target, tuple(sources), bound) for target, sources, bound in tree["merges"])
        return cls(tuple(layers), tuple(merges))


@dataclass(frozen=True, slots=True)
class LayerPart:
    """The rows of a layer whose hash is at least `bound`; those with lower ones are in the target of a merge."""

    bucket: int
    layer: Layer
    bound: int
