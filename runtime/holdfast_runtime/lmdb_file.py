"""Checks of LMDB's data file for damage, before LMDB maps it: damage in a mapped file could kill the process.

LMDB has no checksums, follows page numbers wherever they lead, and uses the meta page with the later transaction. So
`check_metas` checks both meta pages before a file is opened (a few microseconds), and `check_pages` can walk the tree:
each page carries its own number, keys are in order and within the bounds of their parent, the entries are as many as
counted, and no page is both used and free. Then no read ends in a signal, and no key is missing. Values are not
checked: whoever stores them adds checksums. Must not import LMDB, and must not read what is being written.
"""

import mmap
import struct
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from struct import Struct
from typing import NoReturn

_FIRST = 4096
"""Bytes that hold a meta page, whatever the page size."""
_SIZES = (4096, 8192, 16384, 32768)
"""Page sizes: that of the machine that created the file."""
_HEADER = Struct("<QHHHH")  # number, pad, flags, end of the node table, beginning of the nodes
_HEAD = 16
_META = Struct("<II8x8x")  # magic, version; address, map size
_DB = Struct("<IHHQQQQQ")  # pad, flags, depth, branch, leaf and overflow pages, entries, root
_TAIL = Struct("<QQ")  # last page, transaction
_NODE = Struct("<HHHH")
_OVERFLOW = Struct("<I")
_NUMBER = Struct("<Q")
_MAGIC, _VERSION = 0xBEEFC0DE, 1
_BRANCH, _LEAF, _OVERFLOWING, _IS_META = 0x01, 0x02, 0x04, 0x08
_INTEGER_KEYS = 0x08
_BIG = 0x01
_NONE = (1 << 64) - 1
_DEEPEST = 32
_TRIES = 5
_BEGUN = 2
"""Pages that always exist: the two meta pages."""


class FileDamagedError(ValueError):
    """A data file is not as LMDB leaves it."""


@dataclass(frozen=True, slots=True)
class Database:
    """A database in the file: a tree of pages."""

    flags: int
    depth: int
    branches: int
    leaves: int
    overflowing: int
    entries: int
    root: int


@dataclass(frozen=True, slots=True)
class Meta:
    """The content of a meta page."""

    page: int
    """Bytes per page."""
    free: Database
    main: Database
    last: int
    """The number of the last page that was ever used."""
    transaction: int


def check_metas(path: Path) -> Meta:
    """Return the newer meta page; raise `FileDamagedError` unless both can be as LMDB wrote them."""
    for left in reversed(range(_TRIES)):
        try:
            return _newer(path)
        except FileDamagedError:
            # Another process may have been writing the page.
            if not left:
                raise
    raise AssertionError


def check_pages(path: Path, transaction: int) -> bool:
    """Check all pages of this transaction, which the caller keeps readable; return False if its meta page is gone.

    Raise `FileDamagedError` where something is wrong.
    """
    meta = check_metas(path)
    if meta.transaction != transaction:
        return False
    with path.open("rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as content:
        walk = _Walk(content, meta)
        try:
            walk.run()
        except struct.error as error:
            _refuse(f"a page is not laid out as pages are ({error})")
    return True


def _newer(path: Path) -> Meta:
    with path.open("rb") as file:
        first = _meta(file.read(_FIRST), 0)
        file.seek(first.page)
        second = _meta(file.read(_FIRST), 1)
    metas = first, second
    if first.page != second.page:
        _refuse(f"its meta pages speak of pages of {first.page} and {second.page} bytes")
    older, newer = (first, second) if second.transaction > first.transaction else (second, first)
    made = older.transaction == newer.transaction == 0
    # Transactions write the two pages in turn, so they are one apart, and each page has its place.
    if not made and (newer.transaction - older.transaction != 1 or newer is not metas[newer.transaction & 1]):
        _refuse(f"its meta pages are of transactions {first.transaction} and {second.transaction}, which do not follow")
    return newer


def _meta(page: bytes, number: int) -> Meta:
    if len(page) != _FIRST:
        _refuse("it was cut off in its first pages")
    page_number, _, flags, _, _ = _HEADER.unpack_from(page)
    magic, version = _META.unpack_from(page, _HEAD)
    if (page_number, flags, magic, version) != (number, _IS_META, _MAGIC, _VERSION):
        _refuse(f"its meta page {number} is none")
    start = _HEAD + _META.size
    (size, *free), (_, *main) = _DB.unpack_from(page, start), _DB.unpack_from(page, start + _DB.size)
    last, transaction = _TAIL.unpack_from(page, start + 2 * _DB.size)
    meta = Meta(size, Database(*free), Database(*main), last, transaction)
    if size not in _SIZES or meta.free.flags != _INTEGER_KEYS or meta.main.flags or last < _BEGUN - 1:
        _refuse(f"its meta page {number} says what LMDB never says")
    return meta


@dataclass(frozen=True, slots=True)
class _TreePage:
    """A page as its tree names it."""

    number: int
    depth: int
    """Levels from this page down; a leaf has 1."""
    low: bytes
    high: bytes | None
    """Its keys are at least `low` and below `high`."""


class _Walk:
    def __init__(self, content: mmap.mmap, meta: Meta) -> None:
        self._content, self._meta, self._size = content, meta, meta.page
        self._there = len(content) // meta.page
        self._taken = bytearray(meta.last + 1)
        self._counts = [0, 0, 0, 0]
        """Counts of branch, leaf and overflow pages, and entries."""
        self._free: list[int] = []

    def run(self) -> None:
        self._take(0, _BEGUN)
        self._tree(self._meta.main, "records")
        self._tree(self._meta.free, "free pages")
        for page in self._free:
            self._take(page, 1, in_file=False)

    def _tree(self, database: Database, what: str) -> None:
        self._counts = [0, 0, 0, 0]
        if database.root != _NONE:
            if not 0 < database.depth <= _DEEPEST:
                _refuse(f"the tree of its {what} has {database.depth} levels")
            self._page(database, _TreePage(database.root, database.depth, b"", None))
        if self._counts != [database.branches, database.leaves, database.overflowing, database.entries]:
            _refuse(f"the tree of its {what} is not as large as it says")

    def _page(self, database: Database, tree_page: "_TreePage") -> None:
        self._take(tree_page.number, 1)
        start = tree_page.number * self._size
        page_number, _, flags, lower, upper = _HEADER.unpack_from(self._content, start)
        kind = _LEAF if tree_page.depth == 1 else _BRANCH
        if (page_number, flags) != (tree_page.number, kind) or not _HEAD <= lower <= upper <= self._size:
            _refuse(f"page {tree_page.number} is not what belongs there")
        page = self._content[start : start + self._size]
        nodes = [int.from_bytes(page[offset : offset + 2], "little") for offset in range(_HEAD, lower, 2)]
        if not nodes or min(nodes) < upper or len(set(nodes)) != len(nodes):
            _refuse(f"page {tree_page.number} has its nodes where none can be")
        if kind == _LEAF:
            self._counts[1] += 1
            self._leaf(database, tree_page, page, nodes)
        else:
            self._counts[0] += 1
            self._branch(database, tree_page, page, nodes)

    def _branch(self, database: Database, tree_page: "_TreePage", page: bytes, nodes: list[int]) -> None:
        children, keys = [], []
        for node in nodes:
            first, second, third, length = _NODE.unpack_from(page, node)
            children.append(first | second << 16 | third << 32)
            keys.append(self._key(database, page, node, length))
        # LMDB ignores the first key of a branch page.
        keys[0] = tree_page.low
        self._in_order(tree_page, keys)
        for child, low, high in zip(children, keys, [*keys[1:], tree_page.high], strict=True):
            self._page(database, _TreePage(child, tree_page.depth - 1, low, high))

    def _leaf(self, database: Database, tree_page: "_TreePage", page: bytes, nodes: list[int]) -> None:
        keys = []
        for node in nodes:
            first, second, flags, length = _NODE.unpack_from(page, node)
            size, value_start = first | second << 16, node + _NODE.size + length
            keys.append(self._key(database, page, node, length))
            if flags & ~_BIG:
                _refuse(f"page {tree_page.number} holds a node of a kind that is not used")
            if flags:
                self._overflow(_NUMBER.unpack_from(page, value_start)[0], size)
            elif value_start + size > self._size:
                _refuse(f"a value of page {tree_page.number} ends behind it")
            if database is self._meta.free:
                self._freed(self._value(page, value_start, size, big=bool(flags)))
        self._in_order(tree_page, keys)
        self._counts[3] += len(keys)

    def _overflow(self, number: int, size: int) -> None:
        pages = -(-(_HEAD + size) // self._size)
        self._take(number, pages)
        page_number, _, flags, _, _ = _HEADER.unpack_from(self._content, number * self._size)
        (page_count,) = _OVERFLOW.unpack_from(self._content, number * self._size + 12)
        if (page_number, flags) != (number, _OVERFLOWING) or page_count < pages:
            _refuse(f"page {number} is not the value that belongs there")
        self._take(number + pages, page_count - pages)
        self._counts[2] += page_count

    def _value(self, page: bytes, offset: int, size: int, *, big: bool) -> bytes:
        if not big:
            return page[offset : offset + size]
        start = _NUMBER.unpack_from(page, offset)[0] * self._size + _HEAD
        return self._content[start : start + size]

    def _freed(self, value: bytes) -> None:
        numbers = [number for (number,) in _NUMBER.iter_unpack(value)]
        if not numbers or numbers[0] != len(numbers) - 1:
            _refuse("a list of free pages is not as long as it says")
        self._free += numbers[1:]

    def _key(self, database: Database, page: bytes, node: int, length: int) -> bytes:
        start = node + _NODE.size
        if start + length > self._size:
            _refuse("a key ends behind its page")
        key = page[start : start + length]
        # Keys of the free list are transaction numbers: little-endian, ordered by value.
        return key[::-1] if database is self._meta.free else key

    def _in_order(self, tree_page: "_TreePage", keys: list[bytes]) -> None:
        """Check that the keys are in order and within the bounds of the page."""
        if any(key >= next_key for key, next_key in pairwise(keys)):
            _refuse(f"the keys of page {tree_page.number} are not in order")
        if keys[0] < tree_page.low or (tree_page.high is not None and keys[-1] >= tree_page.high):
            _refuse(f"the keys of page {tree_page.number} are not those that are looked for there")

    def _take(self, number: int, pages: int, *, in_file: bool = True) -> None:
        end = number + pages
        if end > len(self._taken) or (in_file and end > self._there):
            _refuse(f"page {end - 1} is wanted and is not there: {self._there} of {len(self._taken)} are")
        if any(self._taken[number:end]):
            _refuse(f"page {number} is used twice")
        self._taken[number:end] = b"\x01" * pages


def _refuse(why: str) -> NoReturn:
    raise FileDamagedError(why)
