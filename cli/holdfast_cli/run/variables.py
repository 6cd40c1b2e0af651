"""Variables of the spec for a run on this host: its executors' and driver's are one process's here.

Values of Secrets, ConfigMaps and pods are a cluster's, so that the shell gives those. Must not start anything.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

from holdfast.spec.pods import Variable
from holdfast.spec.runtime import Runtime

_REFERENCES = re.compile(r"\$\$|\$\(([^)]*)\)")


def local_variables(runtime: Runtime, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what a run adds to its environment: an executor's value before the driver's, the shell's before both."""
    values = _values(runtime.driver.env, environment) | _values(runtime.executors.env, environment)
    return {name: value for name, value in values.items() if name not in environment}


def _values(variables: Iterable[Variable], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the values that stand in a list, with `$(NAME)` of one further up replaced as in a container."""
    values: dict[str, str] = {}
    known: dict[str, str] = {}
    for variable in variables:
        if variable.value_from is None:
            values[variable.name] = _expanded(variable.value or "", known)
        if (value := environment.get(variable.name, values.get(variable.name))) is not None:
            known[variable.name] = value
    return values


def _expanded(text: str, known: Mapping[str, str]) -> str:
    return _REFERENCES.sub(lambda match: "$" if match[0] == "$$" else known.get(match[1], match[0]), text)


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
