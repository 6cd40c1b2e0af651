"""A Spark SQL expression that fails on a row, as a sentence with its step instead of Java's stack.

Spark ends the whole job with such an error, and says which part of which text it is and, for most, the value. Must not
decide what becomes of the batch.
"""

from collections.abc import Mapping, Sequence

from py4j.java_gateway import is_instance_of
from pyspark import SparkContext

from holdfast.errors import UserActionError
from holdfast.planning.types.findings import excerpt
from holdfast.spec.steps import Step
from holdfast_runtime.spark.java_causes import java_causes

_DATA_EXCEPTION = "22"
"""The class of the SQL standard's states for values with which an expression can't be computed."""
_NOT_HERE = " If necessary set "
"""What Spark advises behind this is to turn off ANSI mode, which can't be turned off here."""


class ExpressionFailedError(UserActionError):
    """An expression of a step fails on a row."""


def sql_texts(steps: Sequence[Step]) -> Mapping[str, str]:
    """Step -> its Spark SQL, for steps that stop the app where it fails."""
    return {
        step.name: step.filter or ", ".join(step.select or ())
        for step in steps
        if (step.filter or step.select) and step.dead_letter is None
    }


def failed_expression(error: Exception, texts: Mapping[str, str]) -> ExpressionFailedError | None:
    """What an error of Spark says of the expressions in these texts; None: it is another error."""
    for cause in java_causes(error):
        if not is_instance_of(SparkContext._gateway, cause, "org.apache.spark.SparkThrowable"):  # noqa: SLF001
            continue
        if str(cause.getSqlState()).startswith(_DATA_EXCEPTION):
            fragments = [str(one.fragment()) for one in cause.getQueryContext()]
            return _explained(str(cause.getMessage()), fragments, texts)
    return None


def _explained(said: str, fragments: Sequence[str], texts: Mapping[str, str]) -> ExpressionFailedError:
    steps = [name for name, text in texts.items() if any(one in text for one in fragments)] or list(texts)
    sentence = said.partition("\n")[0].partition(" SQLSTATE")[0].partition("] ")[2].partition(_NOT_HERE)[0]
    where = f" in {excerpt(fragments[0])}" if fragments else ""
    message = (
        f"step {' or '.join(steps)}: Spark SQL fails on a row{where}: {sentence or said} Correct the expression and "
        f"run again, or put such rows aside: onError: DeadLetter of the step"
    )
    return ExpressionFailedError(message)
