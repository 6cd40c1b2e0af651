"""Functions by name: the spec's own modules first, then installed ones; what is missing is said."""

import json

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.streams.user_functions import load_function
from tests.error_codes import has_code

CODE = {
    "demo": "from shared import FACTOR\ndef twice(x):\n    return FACTOR * x\n",
    "shared": "FACTOR = 2\n",
    "broken": "1 / 0\n",
    "needs": "import no_such_package_at_all\n",
}


def test_inline_modules_import_one_another() -> None:
    assert load_function("demo:twice", CODE)(4) == 8


def test_a_changed_module_is_reloaded_with_those_that_import_it() -> None:
    load_function("demo:twice", CODE)
    assert load_function("demo:twice", {**CODE, "shared": "FACTOR = 3\n"})(4) == 12


def test_a_module_of_the_spec_goes_before_an_installed_one() -> None:
    assert load_function("json:dumps", {}) is json.dumps
    assert load_function("colorsys:mine", {"colorsys": "def mine():\n    return 1\n"})() == 1
    assert load_function("colorsys:rgb_to_hsv", {})(0, 0, 0) == (0.0, 0.0, 0)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("demo:twise", "demo:twise: twise is missing; did you mean twice.* runtime.code.demo"),
        ("shared:FACTOR", "FACTOR is not a function"),
        ("dem:twice", "there is no module dem; did you mean demo.*put it into runtime.code or install it"),
        ("no.such.place:f", "there is no module no"),
        ("needs:f", "module needs imports no_such_package_at_all, which is not installed"),
        ("broken:f", "module broken fails when it is imported .line 1.: ZeroDivisionError"),
    ],
)
def test_what_is_missing_is_said(path: str, message: str) -> None:
    with pytest.raises(UserActionError, match=message, check=has_code("FunctionMissingError")):
        load_function(path, CODE)
