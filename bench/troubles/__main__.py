"""`python bench/troubles` like the other benchmarks, though this one is a package. Must only start it."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[2])

from bench.troubles.report import main  # noqa: E402 - found only now

if __name__ == "__main__":
    sys.exit(main())
