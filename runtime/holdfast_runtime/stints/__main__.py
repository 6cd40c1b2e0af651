"""The process from which the slots of a stint are forked: imports what they need, and waits for its order.

It ends its slots if their driver is gone, however that ended, and if one of them dies on its way to the driver, which
waits for all and would not see it. Must not know what slots do.
"""

import gc
import mmap
import os
import pickle
import signal
import sys
import threading
import traceback
from contextlib import suppress

import holdfast_runtime.stints.staying_slot  # noqa: F401 - what slots need
from holdfast_runtime.stints.slot_processes import ENDS_WITHIN, HostOrder, SlotsOrder
from holdfast_runtime.stints.stints import SlotWork, stay


def _main() -> None:
    try:
        order: HostOrder = pickle.load(sys.stdin.buffer)  # noqa: S301 - from the driver, which started this process
    except EOFError:
        return  # the driver has ended, and needs no slots
    sys.path[:] = order.path
    with order.prints.open("ab") as prints:
        for output in (sys.stdout, sys.stderr):
            os.dup2(prints.fileno(), output.fileno())
    slots: SlotsOrder = pickle.loads(order.slots)  # noqa: S301 - as above
    # What is imported lives as long as the processes, so garbage collection need not visit it.
    gc.collect()
    gc.freeze()
    arrived = mmap.mmap(-1, slots.count)
    processes = {_forked(slots, slot, arrived): slot for slot in range(slots.count)}
    threading.Thread(target=_outlive_no_driver, daemon=True).start()
    with suppress(ChildProcessError):
        while processes:
            process, _ = os.wait()
            slot = processes.pop(process, None)
            if slot is not None and not arrived[slot]:
                os.killpg(0, signal.SIGKILL)


def _forked(slots: SlotsOrder, slot: int, arrived: mmap.mmap) -> int:
    """Return the process of a slot, which notes when it has reached its driver."""
    if process := os.fork():
        return process

    def begin(number: int) -> SlotWork:
        arrived[number] = True
        return slots.begin(number)

    try:
        stay(slots.driver, slots.stint, slot, begin)
    except BaseException:  # noqa: BLE001 - nobody else would say it
        traceback.print_exc()
    finally:
        os._exit(0)


def _outlive_no_driver() -> None:
    """End this process and its slots when the driver has gone; they notice by themselves, unless they are at work."""
    os.read(sys.stdin.fileno(), 1)  # not through the buffer: Python would abort if it ended meanwhile
    threading.Event().wait(ENDS_WITHIN)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    _main()
