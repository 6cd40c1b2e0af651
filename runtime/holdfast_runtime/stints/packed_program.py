"""The program of an app's slots as bytes, and the tools that a process makes of them once.

Must not know who starts the process.
"""

import gc
import pickle
from dataclasses import dataclass
from functools import cache

from holdfast_runtime.clocks import now
from holdfast_runtime.slot.program import Program
from holdfast_runtime.slot.worker_tools import WorkerTools
from holdfast_runtime.streams.systems import Streams


@dataclass(frozen=True, slots=True)
class PackedProgram:
    """A pickled program: the same bytes in all jobs, so that workers reuse their tools when tasks move."""

    program: Program
    content: bytes

    @classmethod
    def of(cls, program: Program) -> "PackedProgram":
        """Pickle this program."""
        return cls(program, pickle.dumps(program, protocol=5))


@cache
def worker_tools(content: bytes) -> WorkerTools:
    """Return the tools for a pickled program, made once per process and program."""
    program: Program = pickle.loads(content)  # noqa: S301 - from the driver of this app
    tools = WorkerTools(program, Streams(program.app, program.spec, program.plan, program.environment, now))
    # They live as long as the process, so garbage collection need not visit them after every batch.
    gc.collect()
    gc.freeze()
    return tools
