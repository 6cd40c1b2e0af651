"""The modules of `runtime.code`, checked before a pod is made: that they are Python and hold what steps name.

Must not run or import any of it. Parsing takes up to a thousand times a text in memory, and the operator parses what
anybody applies: what is too long is taken as it is.
"""

import ast
from collections.abc import Iterator, Mapping

from holdfast.planning.problems_part import Problem
from holdfast.reasons import Reason
from holdfast.spec.app_part import AppSpec
from holdfast.suggest import did_you_mean

_MOST_PARSED = 64_000
"""Letters of all modules together; a hundred of what people write by hand, and at most 64 MB of memory."""


def code_problems(spec: AppSpec) -> Iterator[Problem]:
    """Modules that are no Python, and functions they do not hold."""
    defined: dict[str, set[str]] = {}
    left = _MOST_PARSED
    for module, text in sorted(spec.runtime.code.items(), key=lambda item: (len(item[1]), item[0])):
        left -= len(text)
        if left < 0:
            break
        try:
            defined[module] = _names(ast.parse(text))
        except SyntaxError as error:
            message = f"runtime.code.{module} is not Python: line {error.lineno}: {error.msg}"
            yield Problem(Reason.CODE_INVALID, message)
        except (ValueError, RecursionError, MemoryError) as error:
            yield Problem(Reason.CODE_INVALID, f"runtime.code.{module} is not Python: {error}")
    for step in spec.steps:
        verb = step.apply or step.process
        if verb is not None:
            yield from _missing(defined, verb.function, step=step.name)
    for system in spec.systems:
        if system.generator is not None:
            yield from _missing(defined, system.generator.function)


def _names(tree: ast.Module) -> set[str]:
    """What a module may define at its top, in whatever way."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.alias):
            names.add((node.asname or node.name).split(".")[0])
    return names


def _missing(defined: Mapping[str, set[str]], path: str, *, step: str | None = None) -> Iterator[Problem]:
    """A function of a module that is there, but not in it; modules of the image can't be looked into."""
    module, _, function = path.partition(":")
    names = defined.get(module)
    if names is not None and function not in names and "*" not in names:
        message = f"runtime.code.{module} has no {function}{did_you_mean(function, names)}"
        yield Problem(Reason.CODE_INVALID, message, step=step)
