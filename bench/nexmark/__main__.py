"""The command of the Nexmark benchmark: `python bench/nexmark` or `python -m bench.nexmark`. Must only start it."""

import sys
from pathlib import Path

sys.path[0] = str(Path(__file__).parents[2])

from bench.nexmark.report import main  # noqa: E402 - found only now

main()
