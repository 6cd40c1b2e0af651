"""What a test says of an error without a class of its own: its code."""

from collections.abc import Callable

from holdfast.errors import HoldfastError


def has_code(code: str) -> Callable[[HoldfastError], bool]:
    """Return a check for `pytest.raises`: whether an error has this code."""
    return lambda error: error.code == code
