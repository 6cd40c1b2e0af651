"""Whatever a record holds: it is good or bad by itself, ends no process, and what is good is taken by every step.

`HOLDFAST_SEED` draws other records, `HOLDFAST_POISON` more of them; `make soak` does both.
"""

import os
import secrets
import subprocess
import sys

from tests.codecs.poison import KINDS
from tests.waiting import patience

SOAK = os.environ.get("HYPOTHESIS_PROFILE") == "soak"
RECORDS = int(os.environ.get("HOLDFAST_POISON", "100000" if SOAK else "2400"))
SEED = int(os.environ.get("HOLDFAST_SEED", str(secrets.randbits(32)) if SOAK else "20260901"))
DEADLINE = patience(60 + RECORDS / 50)


def test_mutated_records_are_judged_alone_and_end_no_process() -> None:
    run = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-m", "tests.codecs.poison", str(RECORDS), str(SEED)],
        capture_output=True,
        text=True,
        timeout=DEADLINE,
        check=False,
    )
    assert run.returncode == 0, f"HOLDFAST_SEED={SEED}: {run.returncode}\n{run.stdout}{run.stderr[-4000:]}"
    kinds = run.stdout.splitlines()
    assert [line.partition(":")[0] for line in kinds] == list(KINDS)
    assert all("good" in kind and "bad" in kind for kind in kinds), run.stdout
