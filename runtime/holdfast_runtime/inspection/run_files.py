"""What a run has beside its state: its offset log, its placement record and a pending jump, to be read from outside.

On this host they are files of the data directory. On a cluster the offsets are in the checkpoint location and the
record is in a ConfigMap. Must not change anything by reading.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from holdfast.errors import UserActionError
from holdfast.placement.config_map_store import ConfigMapStore
from holdfast.placement.file_store import FileStore
from holdfast.placement.record_store import RecordStore
from holdfast_runtime.checkpoint.directories import AppDir, DataDir, directory_name
from holdfast_runtime.checkpoint.offset_log import OffsetLogState, read_offset_log
from holdfast_runtime.checkpoint.offsets import JumpFile
from holdfast_runtime.checkpoint.query_copy import restore_query
from holdfast_runtime.inspection.local_app import ClusterRun, LocalApp


def app_dir_of(local_app: LocalApp) -> AppDir:
    """Return the app's directory."""
    return DataDir(local_app.data.absolute()).app(local_app.app.name)


def logged_of(local_app: LocalApp) -> OffsetLogState:
    """Return the state of the run's offset log; raise `UsageError` if it never ran."""
    run, cluster = local_app.app.spec.run_id, local_app.cluster
    if cluster is None:
        logged = read_offset_log(app_dir_of(local_app).run(run).query)
        place, hint = str(local_app.data), " (is it the right --data, and the right spec.runId?)"
    else:
        logged, place, hint = _logged_on_cluster(cluster, run), cluster.runs.directory, ""
    if logged is None:
        message = (
            f"run {run} of {local_app.app.name} has not read anything in {place}: there are no positions yet{hint}"
        )
        raise UserActionError(message, code="UsageError")
    return logged


def _logged_on_cluster(cluster: ClusterRun, run: str) -> OffsetLogState | None:
    if cluster.query is not None:
        return read_offset_log(cluster.query)
    with TemporaryDirectory(prefix="holdfast-offsets-") as directory:
        restore_query(cluster.runs.below(directory_name(run), "query"), Path(directory))
        return read_offset_log(Path(directory))


def jump_file_of(local_app: LocalApp) -> JumpFile:
    """Return the file of the run's pending jump."""
    if local_app.cluster is not None:
        return JumpFile(local_app.cluster.shared)
    return JumpFile.beside(app_dir_of(local_app).run(local_app.app.spec.run_id).query)


def records_of(local_app: LocalApp) -> RecordStore:
    """Return the placement records of the app."""
    name, cluster = local_app.app.name, local_app.cluster
    if cluster is None:
        return RecordStore(FileStore(app_dir_of(local_app).run(local_app.app.spec.run_id).metadata), name)
    # Imported here: it takes half a second, and no app of this host needs it.
    from holdfast_runtime.coordination.api_config_maps import ApiConfigMaps  # noqa: PLC0415

    return RecordStore(ConfigMapStore(ApiConfigMaps.connected(cluster.namespace), name, {}), name)
