"""About how many distinct values there are: approx_count_distinct, a sketch of 2^p bytes per group (HyperLogLog).

A sketch is the sorted hashes of the values while they are few, and so exact; then registers, each of which
keeps the longest run of zeros that a hash of its own began with. Which of the two it is depends on the values only,
and is told by its length, so the same rows give the same bytes however they were cut. The estimate is the one of Ertl
("New cardinality estimation algorithms for HyperLogLog sketches", 2017, algorithm 6), which needs no tables of
corrections. Sketches are stored: a change of HASH_FORMAT or of this form needs new ones. Must not keep values.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.errors import UserActionError
from holdfast.planning.aggregation import AggregateCall
from holdfast_runtime.columns.grouping import starts_of
from holdfast_runtime.columns.key_columns import Mask, Rows, Words
from holdfast_runtime.columns.sorted_hashes import sort_hashes, spans
from holdfast_runtime.steps.accumulators.accumulator import Accumulator, AggregateResult, Maker, RowGroups
from holdfast_runtime.steps.accumulators.member_rows import MemberRows, valid_rows
from holdfast_runtime.steps.accumulators.ordering import check_comparable
from holdfast_runtime.steps.accumulators.value_keys import element_hashes, value_keys

Registers = npt.NDArray[np.uint8]
Floats = npt.NDArray[np.float64]

DEFAULT_ERROR = 0.05
"""Spark's, for a call without one."""
_ERROR_OF_ONE = 1.106
"""The error of a sketch of one register, as Spark reckons: more registers divide it by the root of their number."""
LEAST_BITS, MOST_BITS = 4, 18
"""Of a hash, which choose its register: 16 bytes to 256 KiB per group."""
_BITS, _WORD = 64, 8
_LEAN = 1.079
"""Ertl's constant is that of endlessly many registers; with m of them estimates lean upwards by 1.079/m (Flajolet)."""
_AT_ONCE = 2**22
"""Registers that are estimated at a time."""


@dataclass(frozen=True, slots=True)
class DenseSketches:
    """The registers of groups that have many values."""

    groups: Rows
    """Ascending."""
    registers: Registers
    """A row for each of these groups."""


@dataclass(frozen=True, slots=True)
class ApproximateCount:
    """A sketch of the values of a group."""

    bits: int
    """Of a hash; they choose its register."""

    @property
    def kept(self) -> tuple[pa.DataType, ...]:
        """The sketch."""
        return (pa.binary(),)

    @property
    def result(self) -> pa.DataType:
        """BIGINT."""
        return pa.int64()

    @property
    def size(self) -> int:
        """How many registers a group has; each is a byte."""
        return 1 << self.bits

    def gather(self, arguments: Sequence[pa.Array], counted: Mask | None, groups: RowGroups) -> list[pa.Array]:
        """Return the sketch of each group."""
        members = MemberRows.of(groups, counted, valid_rows(arguments))
        hashes = value_keys(arguments, len(arguments[0]), element_hashes).hashes()
        nothing = DenseSketches(np.zeros(0, np.int64), np.zeros((0, self.size), np.uint8))
        return [self._sketches(hashes[members.rows], members.groups, nothing, len(groups.starts))]

    def merge(self, partials: Sequence[pa.Array], groups: RowGroups) -> list[pa.Array]:
        """Return the sketch of all values of each group."""
        bounds, words = _words(partials[0])
        members = MemberRows.of(groups)
        starts, lengths = bounds[:-1][members.rows], np.diff(bounds)[members.rows]
        is_dense = lengths == self.size // _WORD
        dense, first = members.groups[is_dense], starts_of(members.groups[is_dense])
        registers = words[spans(starts[is_dense], lengths[is_dense])].view(np.uint8).reshape(-1, self.size)
        if len(dense):
            registers = np.maximum.reduceat(registers, first, axis=0)
        hashes = words[spans(starts[~is_dense], lengths[~is_dense])]
        owners = np.repeat(members.groups[~is_dense], lengths[~is_dense])
        return [self._sketches(hashes, owners, DenseSketches(dense[first], registers), len(groups.starts))]

    def finish(self, partials: Sequence[pa.Array]) -> AggregateResult:
        """Return how many values there are about."""
        bounds, words = _words(partials[0])
        counts = np.diff(bounds)
        dense_rows = np.flatnonzero(counts == self.size // _WORD)
        step = max(1, _AT_ONCE // self.size)
        for start in range(0, len(dense_rows), step):
            chunk = dense_rows[start : start + step]
            chosen = words[spans(bounds[chunk], counts[chunk])]
            counts[chunk] = self._estimated(chosen.view(np.uint8).reshape(-1, self.size))
        return AggregateResult(pa.array(counts, pa.int64()))

    def _sketches(self, hashes: Words, owners: Rows, dense: DenseSketches, groups: int) -> pa.Array:
        """Return the sketches of so many groups; `owners`: the group of each hash."""
        hashes, owners = _distinct(hashes, owners)
        counts = np.bincount(owners, minlength=groups)
        is_dense = counts >= self.size // _WORD
        is_dense[dense.groups] = True
        row = np.cumsum(is_dense) - 1
        registers = np.zeros((int(is_dense.sum()), self.size), np.uint8)
        registers[row[dense.groups]] = dense.registers
        inside = is_dense[owners]
        self._register(registers.reshape(-1), row[owners[inside]], hashes[inside])
        sizes = np.where(is_dense, self.size, counts * _WORD)
        bounds, dense_bytes = np.append(0, np.cumsum(sizes)).astype(np.int32), np.repeat(is_dense, sizes)
        content = np.empty(len(dense_bytes), np.uint8)
        content[dense_bytes] = registers.reshape(-1)
        content[~dense_bytes] = hashes[~inside].view(np.uint8)
        buffers = [None, pa.py_buffer(bounds), pa.py_buffer(content)]
        return pa.Array.from_buffers(self.kept[0], groups, buffers)

    def _register(self, registers: Registers, rows: Rows, hashes: Words) -> None:
        """Note hashes, which ascend in each row of registers."""
        rest = _BITS - self.bits
        register = rows * self.size + (hashes >> np.uint64(rest)).astype(np.int64)
        first = starts_of(register)  # the smallest hash of a register has the longest run of zeros
        tail = hashes[first] & np.uint64((1 << rest) - 1)
        # A float rounds, and must not round up to the next power of two: no second bit is left beside the highest.
        _, length = np.frexp((tail & ~(tail >> np.uint64(1))).astype(np.float64))
        register = register[first]
        registers[register] = np.maximum(registers[register], (rest + 1 - length).astype(np.uint8))

    def _estimated(self, registers: Registers) -> Rows:
        longest = _BITS - self.bits + 1
        row = np.arange(len(registers))[:, None] * (longest + 1)
        levels = np.bincount((registers + row).reshape(-1), minlength=len(registers) * (longest + 1))
        share = levels.reshape(len(registers), longest + 1) / self.size
        total = _tau(1 - share[:, longest])
        for level in range(longest - 1, 0, -1):
            total = (total + share[:, level]) / 2
        total += _sigma(share[:, 0])
        few = 1 + _LEAN / self.size
        return np.rint(self.size / (2 * math.log(2) * total * few)).astype(np.int64)


def _distinct(hashes: Words, owners: Rows) -> tuple[Words, Rows]:
    """Return the hashes by owner and ascending, each once."""
    by_hash = sort_hashes(hashes)
    by_owner = sort_hashes(owners[by_hash.order].astype(np.uint64))
    hashes, owners = by_hash.hashes[by_owner.order], by_owner.hashes.astype(np.int64)
    first = np.ones(len(hashes), np.bool_)
    first[1:] = (hashes[1:] != hashes[:-1]) | (owners[1:] != owners[:-1])
    return hashes[first], owners[first]


def _words(sketches: pa.Array) -> tuple[Rows, Words]:
    """Return where each sketch begins, in words, and the words."""
    if not len(sketches):
        return np.zeros(1, np.int64), np.zeros(0, np.uint64)
    _, ends, data = sketches.buffers()
    bounds = np.frombuffer(ends, np.int32)[sketches.offset : sketches.offset + len(sketches) + 1]
    content = b"" if data is None else data[int(bounds[0]) : int(bounds[-1])]
    return (bounds - bounds[0]).astype(np.int64) // _WORD, np.frombuffer(content, np.uint64)


def _sigma(share: Floats) -> Floats:
    """Return what empty registers contribute: the sum of x^(2^k) * 2^(k-1) over all k."""
    total, power, weight = share.copy(), share, 1.0
    while True:
        power, before = power * power, total
        total = total + power * weight
        weight *= 2
        if (total == before).all():
            return total


def _tau(share: Floats) -> Floats:
    """Return what full registers contribute."""
    total, root, weight = 1 - share, share, 1.0
    while True:
        root, before = np.sqrt(root), total
        weight /= 2
        total = total - (1 - root) ** 2 * weight
        if (total == before).all():
            return total / 3


def _make(call: AggregateCall, types: Sequence[pa.DataType]) -> Accumulator:
    check_comparable(types[0], call.function, call.arguments[0])
    error = DEFAULT_ERROR if call.error is None else call.error
    bits = math.ceil(2 * math.log2(_ERROR_OF_ONE / error)) if error > 0 else MOST_BITS + 1
    if not LEAST_BITS <= bits <= MOST_BITS:
        message = (
            f"approx_count_distinct({call.arguments[0]}, {error}) asks for an error of {error}; choose one from 0.0022 "
            "to 0.39, or count(DISTINCT ...) for an exact result"
        )
        raise UserActionError(message, code="AggregateArgumentError")
    return ApproximateCount(bits)


MAKERS: Mapping[str, Maker] = {"approx_count_distinct": _make}
