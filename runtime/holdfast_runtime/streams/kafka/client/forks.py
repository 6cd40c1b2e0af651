"""Why: after a fork, a client's threads are in the parent alone, and to end the client would wait for them for ever.

Must be called in the child only, for clients that its parent made.
"""

import ctypes


def keep_for_ever(client: object) -> None:
    """Let no garbage collection of this process end a client of its parent's."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(client))
