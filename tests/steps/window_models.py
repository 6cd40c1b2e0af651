"""Windows and sessions as lists of rows: what `aggregate` is held to. Must not know Arrow or state."""

from collections.abc import Iterator, Sequence

from holdfast.times import MICROS_PER_MILLI

Row = tuple[str | None, int | None, int | None]
"""User, number, event time in microseconds."""
Out = tuple[int | None, int | None, str | None, int, int | None]
"""Window start and end in microseconds, user, count and sum."""
MS = MICROS_PER_MILLI


def result(start: int | None, end: int | None, user: str | None, rows: Sequence[Row]) -> Out:
    numbers = [number for _, number, _ in rows if number is not None]
    return start, end, user, len(rows), sum(numbers) if numbers else None


class WindowModel:
    """What windows hold, as a dict of lists."""

    def __init__(self, window: int, slide: int) -> None:
        self.window, self.slide = window, slide
        self.until: int | None = None
        self.held: dict[tuple[int, str | None], list[Row]] = {}
        self.late = 0

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            time = row[2]
            ends = [] if time is None else self.ends(time)
            open_ = [end for end in ends if self.until is None or end > self.until]
            self.late += not open_
            for end in open_:
                self.held.setdefault((end, row[0]), []).append(row)

    def ends(self, time: int) -> list[int]:
        start = time // self.slide * self.slide
        return [
            start - back + self.window
            for back in range(0, self.window, self.slide)
            if start - back + self.window > time
        ]

    def close(self, millis: int | None) -> Iterator[Out]:
        watermark = None if millis is None else millis * MS
        if watermark is None or (self.until is not None and watermark <= self.until):
            return
        self.until = watermark
        for end, user in sorted(self.held, key=lambda group: (group[0], str(group[1]))):
            if end <= watermark:
                yield result(end - self.window, end, user, self.held.pop((end, user)))


class SessionModel:
    """Sessions as lists of rows."""

    def __init__(self, gap: int) -> None:
        self.gap = gap
        self.until: int | None = None
        self.held: list[tuple[str | None, int, int, list[Row]]] = []
        self.late = 0

    def add(self, rows: Sequence[Row]) -> None:
        for row in rows:
            user, _, time = row
            if time is None or (self.until is not None and time + self.gap <= self.until):
                self.late += 1
                continue
            first, last, held, apart = time, time, [row], []
            for session in self.held:
                if session[0] == user and session[1] < last + self.gap and first < session[2] + self.gap:
                    first, last, held = min(first, session[1]), max(last, session[2]), [*session[3], *held]
                else:
                    apart.append(session)
            self.held = [*apart, (user, first, last, held)]

    def close(self, millis: int | None) -> Iterator[Out]:
        watermark = None if millis is None else millis * MS
        if watermark is None or (self.until is not None and watermark <= self.until):
            return
        self.until = watermark
        over = [session for session in self.held if session[2] + self.gap <= watermark]
        self.held = [session for session in self.held if session not in over]
        for user, first, last, rows in sorted(over, key=lambda session: (session[2], str(session[0]))):
            yield result(first, last + self.gap, user, rows)
