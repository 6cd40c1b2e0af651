"""The check of long names counts the words of a test behind `test`, wherever it is defined."""

from tests.long_names import WORDS, long_names


def test_a_test_of_one_word_too_many_is_found() -> None:
    name = "test" + "_word" * WORDS
    source = f"def {name}(): ...\nclass Any:\n    async def {name}_more(self): ...\ndef plain{name}_more(): ...\n"
    assert long_names(source) == [(3, f"{name}_more")]
