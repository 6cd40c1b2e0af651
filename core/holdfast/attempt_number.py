"""The number of an attempt: its bounds, and its text in names of objects.

Attempts are fenced by number, so all readers must agree on it. A number that one reader sees and another does not would
let an older attempt pass. So what is read from outside is refused beyond the bounds, and names are made and parsed here
alone. Must not know what is named.
"""

import re

from holdfast.errors import UserActionError

LAST_ATTEMPT = 10**10 - 1
"""The largest number: fixed-width names have ten digits for it. One attempt a second would last 300 years."""

PADDED = "[0-9]{10}"
"""Regular expression of a number as `padded` writes it."""

_PLAIN = re.compile("[1-9][0-9]{0,9}")


class AttemptNumberError(UserActionError, ValueError):
    """A number that no attempt has."""


def checked_attempt(number: object) -> int:
    """Return the number if an attempt may have it; raise `AttemptNumberError`. 0 stands for no attempt."""
    if isinstance(number, int) and not isinstance(number, bool) and 0 <= number <= LAST_ATTEMPT:
        return number
    message = f"{str(number)[:40]!r} is no number of an attempt: those are whole numbers up to {LAST_ATTEMPT}"
    raise AttemptNumberError(message)


def padded(number: int) -> str:
    """Return the number with ten digits, for names that have to sort by it; raise `AttemptNumberError`."""
    return f"{checked_attempt(number):010}"


def plain_attempt(text: str) -> int | None:
    """Return the number of which this is the only text in names and labels; None: it is of none."""
    return int(text) if _PLAIN.fullmatch(text) else None
