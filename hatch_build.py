"""The build of the loops in C: compiled with the package, by whatever C compiler is there.

Called by hatchling for wheels and for editable installs; pyproject.toml names it. Must not fail where there is no
compiler: then the wheel is one for all platforms, Kafka is read by the plain fetcher, JSON by pyarrow, Avro,
Protobuf and CSV by Python, and stateful steps run on numpy.
"""

import os
import shlex
import subprocess
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCES = (
    Path("runtime/holdfast_runtime/streams/kafka/client/gather.c"),
    Path("runtime/holdfast_runtime/columns/row_loops.c"),
    Path("runtime/holdfast_runtime/streams/codecs/json_records.c"),
    Path("runtime/holdfast_runtime/streams/codecs/json_objects.c"),
    Path("runtime/holdfast_runtime/streams/codecs/avro/avro_records.c"),
    Path("runtime/holdfast_runtime/streams/codecs/avro/avro_values.c"),
    Path("runtime/holdfast_runtime/streams/codecs/csv/csv_records.c"),
    Path("runtime/holdfast_runtime/streams/codecs/csv/csv_lines.c"),
    Path("runtime/holdfast_runtime/streams/codecs/protobuf/protobuf_records.c"),
    Path("runtime/holdfast_runtime/streams/codecs/protobuf/protobuf_values.c"),
)
PATIENCE = 120


class LoopsBuildHook(BuildHookInterface[Any]):
    """Compiles them, and says which platform the wheel is for."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:  # noqa: ARG002 - hatchling's
        """Before the wheel's files are collected."""
        for source in SOURCES:
            fault = compiled(Path(self.root), source)
            if fault is not None:
                self.app.display_warning(f"holdfast: Python will do the work of {source}, slower: {fault}")
                continue
            platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
            build_data["pure_python"] = False
            build_data["tag"] = f"py3-none-{platform}"  # they are called by ctypes: any Python 3 will do
            build_data["artifacts"].append(f"/{source.with_suffix('.so').as_posix()}")


def compiled(root: Path, source: Path) -> str | None:
    """Build a library beside its source; return why it could not be, or None."""
    library = root / source.with_suffix(".so")
    draft = library.with_suffix(f".{os.getpid()}.so")
    compiler = shlex.split(os.environ.get("CC", "cc"))
    try:
        done = subprocess.run(  # noqa: S603 - the compiler whoever builds has chosen
            [*compiler, "-O3", "-fPIC", "-shared", "-o", str(draft), str(root / source)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=PATIENCE,
            check=False,
        )
        if done.returncode:
            said = done.stdout.decode(errors="replace").strip().splitlines()
            return f"{shlex.join(compiler)} ended with {done.returncode}" + (f": {said[-1]}" if said else "")
        draft.replace(library)  # at once: a running process has the old one open
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{shlex.join(compiler)} can't be run: {error}"
    finally:
        draft.unlink(missing_ok=True)
    return None
