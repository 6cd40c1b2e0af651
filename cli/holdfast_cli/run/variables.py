"""Variables of the spec for a run on this host: its executors' and driver's are one process's here.

Values of Secrets, ConfigMaps and pods are a cluster's, so that the shell gives those. Must not start anything.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from holdfast.spec.runtime import Runtime


def local_variables(runtime: Runtime, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a run adds to its environment: an executor's value before the driver's, the shell's before both."""
    both_parts = (*runtime.driver.env, *runtime.executors.env)
    values = {variable.name: variable.value or "" for variable in both_parts if variable.value_from is None}
    return {name: value for name, value in values.items() if name not in environment}


@contextmanager
def variables_set(runtime: Runtime) -> Iterator[None]:
    """Set them for this process and those that it starts."""
    added = local_variables(runtime, os.environ)
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            os.environ.pop(name, None)
