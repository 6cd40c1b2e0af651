"""What the spec says of an app's pods beside their resources: their account, their nodes, their variables.

A template may say the same of other labels and variables, and the two are merged; what both say is refused, because
one of them would silently not count. Must not know what a driver or an executor needs.
"""

from collections.abc import Iterator
from typing import Any

from holdfast.protocol.pods import MAIN
from holdfast.spec.runtime import Driver, Executors, Runtime
from holdfast.trees import Tree, as_object, as_objects


def node_fields(part: Driver | Executors) -> Tree:
    """Return the fields of a pod that say which nodes it may be on."""
    fields = {
        "nodeSelector": dict(part.node_selector),
        "tolerations": [_tree(toleration) for toleration in part.tolerations],
    }
    return {name: value for name, value in fields.items() if value}


def variables(part: Driver | Executors) -> list[Tree]:
    """Return the user's variables of a container."""
    return [_tree(variable) for variable in part.env]


def fields_said_twice(runtime: Runtime) -> Iterator[str]:
    """Yield what the spec says and its pod templates say, too."""
    for part, of in (("driver", runtime.driver), ("executors", runtime.executors)):
        for path, field in _said_twice(of, runtime.service_account_name, MAIN[part]):
            named = f"spec.runtime.{field}" if field == "serviceAccountName" else f"spec.runtime.{part}.{field}"
            yield f"spec.runtime.{part}.podTemplate.{path}: {named} says it already; leave one out"


def _said_twice(part: Driver | Executors, account: str | None, main: str) -> Iterator[tuple[str, str]]:
    """Yield paths in the template, and the field that says the same. The shape of templates is judged elsewhere."""
    spec = as_object(part.pod_template.get("spec"))
    if account is not None:
        for name in ("serviceAccountName", "serviceAccount"):
            if name in spec:
                yield f"spec.{name}", "serviceAccountName"
    for key in sorted(part.node_selector.keys() & as_object(spec.get("nodeSelector")).keys()):
        yield f"spec.nodeSelector[{key}]", f"nodeSelector[{key}]"
    if part.tolerations and "tolerations" in spec:
        yield "spec.tolerations", "tolerations"
    container = next((one for one in as_objects(spec.get("containers")) if one.get("name") == main), {})
    path, names = f"spec.containers[{main}]", {variable.name for variable in part.env}
    for variable in as_objects(container.get("env")):
        variable_name = variable.get("name")
        if isinstance(variable_name, str) and variable_name in names:
            yield f"{path}.env[{variable_name}]", f"env[{variable_name}]"
    template_resources = as_object(container.get("resources"))
    for kind, amounts in (("requests", part.resources.requests), ("limits", part.resources.limits)):
        for amount in sorted(amounts.keys() & as_object(template_resources.get(kind)).keys()):
            yield f"{path}.resources.{kind}.{amount}", f"resources.{kind}.{amount}"


def _tree(value: Any) -> Tree:
    tree: Tree = value.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    return tree
