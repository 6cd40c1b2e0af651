"""Why: one door to the pictures of a plan, by the name of their format."""

from holdfast.planning.picture.dot import dot_of
from holdfast.planning.picture.mermaid import mermaid_of
from holdfast.planning.picture.model_part import picture_of
from holdfast.planning.picture.svg import svg_of
from holdfast.planning.plan import Plan
from holdfast.spec.app_part import StreamApp

FORMATS = {"svg": svg_of, "mermaid": mermaid_of, "dot": dot_of}


def draw(form: str, plan: Plan, app: StreamApp) -> str:
    """The plan as a picture in one of `FORMATS`."""
    return FORMATS[form](picture_of(plan, app))
