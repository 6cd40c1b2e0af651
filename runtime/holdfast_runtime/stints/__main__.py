"""The process from which the slots of a stint are forked: imports what they need, and waits for its order.

It ends its slots if their driver is gone, however that ended. Must not know what slots do.
"""

import gc
import os
import pickle
import signal
import sys
import threading
import traceback
from contextlib import suppress

import holdfast_runtime.stints.staying_slot  # noqa: F401 - what slots need
from holdfast_runtime.stints.slot_processes import ENDS_WITHIN, HostOrder, SlotsOrder
from holdfast_runtime.stints.stints import stay


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
    processes = [_forked(slots, slot) for slot in range(slots.count)]
    threading.Thread(target=_outlive_no_driver, daemon=True).start()
    for process in processes:
        with suppress(ChildProcessError):
            os.waitpid(process, 0)


def _forked(slots: SlotsOrder, slot: int) -> int:
    """Return the process of a slot."""
    if process := os.fork():
        return process
    try:
        stay(slots.driver, slots.stint, slot, slots.begin)
    except BaseException:  # noqa: BLE001 - nobody else would say it
        traceback.print_exc()
    finally:
        os._exit(0)


def _outlive_no_driver() -> None:
    """End this process and its slots when the driver has gone; they notice by themselves, unless they are at work."""
    sys.stdin.buffer.read()
    threading.Event().wait(ENDS_WITHIN)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    _main()
