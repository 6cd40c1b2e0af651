"""An app with the modules beside its file in `runtime.code`, as a cluster needs it, which has no such files.

What is packed is what a run on this host reads from there. Modules of the image are found there and not packed. Must
not import the modules, nor write.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import UserActionError
from holdfast.spec.app import StreamApp
from holdfast_runtime.streams.modules_beside import functions_of, modules_beside

_MOST_BYTES = 1_000_000
"""The driver gets the app in a ConfigMap, which holds 1 MiB."""
_MOST_MODULES, _LARGEST = 100, 5
_IMAGE = "put them into an image of your own (docs/install.md#images)"


@dataclass(frozen=True, slots=True)
class PackedApp:
    """An app, and what was packed into it."""

    app: StreamApp
    modules: Mapping[str, str]
    """Module -> its text, as it was found beside the file."""
    elsewhere: tuple[str, ...]
    """Modules of functions that the image must have."""
    size: int
    """Bytes of the object, at most."""


def packed_app(app: StreamApp, folder: Path | None) -> PackedApp:
    """Pack the modules in this directory that the app uses; raise `ModulesTooLargeError` if Kubernetes can't hold them.

    `folder`: the directory of the app's file; None: it is from no file.
    """
    files = modules_beside(app.spec, folder).files
    modules = {name: file.text for name, file in files.items() if file.text or not file.is_package}
    code = {**app.spec.runtime.code, **modules}
    if len(code) > _MOST_MODULES:
        message = f"{app.name} uses {len(modules)} modules beside it, and runtime.code holds {_MOST_MODULES}: {_IMAGE}"
        raise UserActionError(message, code="ModulesTooLargeError")
    runtime = app.spec.runtime.model_copy(update={"code": code})
    with_code = app.model_copy(update={"spec": app.spec.model_copy(update={"runtime": runtime})}) if modules else app
    size = len(json.dumps(with_code.model_dump(mode="json", by_alias=True, exclude_unset=True)))
    if size > _MOST_BYTES:
        sizes = {name: len(json.dumps(text)) for name, text in modules.items()}
        largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:_LARGEST]
        listed = ", ".join(f"{name} {sizes[name]:,}" for name in largest)
        message = (
            f"{app.name} would have {size:,} bytes with the modules beside it, and Kubernetes takes {_MOST_BYTES:,}; "
            f"the largest: {listed}. Make them smaller, or {_IMAGE}"
        )
        raise UserActionError(message, code="ModulesTooLargeError")
    called = {path.partition(":")[0] for path in functions_of(app.spec)}
    return PackedApp(with_code, modules, tuple(sorted(called - code.keys())), size)
