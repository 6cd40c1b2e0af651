"""Why: the API server is asked once for all specs of the corpus."""

import pytest

from tests.crd.harness import Question, Verdicts, ask
from tests.spec.corpus import CASES


@pytest.fixture(scope="session")
def verdicts() -> Verdicts:
    return ask(Question(case.name, case.tree) for case in CASES)
