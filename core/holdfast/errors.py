"""Why: every failure Holdfast raises on purpose, typed by the way out of it.

Callers decide by type, never by the text of a message. A message names the thing, the value and the cure.
"""


class HoldfastError(Exception):
    """Base of all errors raised on purpose."""


class UserActionError(HoldfastError):
    """Nothing changes until a user edits something: a spec, a file, a command line."""


class WorldChangeError(HoldfastError):
    """Not possible as the world is now; possible when it changes (a topic appears, a broker answers)."""


class RetrySoonError(HoldfastError):
    """Lost a race or met a moment of change: look again and try again, nobody has to do anything."""


class AwayError(RetrySoonError):
    """Something outside does not answer. It is waited for, as long as it takes, and that is said."""
