"""The Spark settings of an app: those that the engine relies on are fixed, all others are the user's.

A setting that would break the engine is refused by name, with the reason. Must not know a session.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.errors import UserActionError
from holdfast.spec.values import as_spark

_CHECKPOINT_FILES = "org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager"
_ONE_COMPILER = "-XX:TieredStopAtLevel=1"
_LOGGING = Path(__file__).with_name("log4j2.properties")


class SparkSettingRefusedError(UserActionError):
    """The user set Spark settings that would make the app wrong or slow."""


@dataclass(frozen=True, slots=True)
class FixedSetting:
    """A setting that users can't choose."""

    name: str
    """The setting; with a dot at the end, all settings that begin with it."""
    why: str
    unless: str | None = None
    """The one value that does no harm."""
    option: str = ""
    """The setting is a list of Java options, of which only this one can't be chosen."""

    def hits(self, name: str, value: str) -> bool:
        """Return whether this setting with this value is refused."""
        same = name.startswith(self.name) if self.name.endswith(".") else name == self.name
        texts = value.split() if self.option else [value.strip()]
        chosen = [text.removeprefix(self.option) for text in texts if text.startswith(self.option)]
        return same and any(self.unless is None or text.casefold() != self.unless.casefold() for text in chosen)


_SIZE = "is given by spec.runtime.executors"
_LANGUAGE = "-Duser.language="
_LETTERS = f"with another {_LANGUAGE} than en, Spark and Python would write letters differently"
_CONNECT = "the batch loop drives Spark's JVM directly; Spark Connect has none"
FIXED_SETTINGS = (
    FixedSetting("spark.master", "is where the app runs: --master, or the cluster"),
    FixedSetting("spark.app.name", "is the app's name"),
    FixedSetting("spark.submit.deployMode", "the driver is the process that is already running", "client"),
    FixedSetting("spark.remote", _CONNECT),
    FixedSetting("spark.api.mode", _CONNECT, "classic"),
    FixedSetting("spark.pyspark.python", "workers run the Python that Holdfast runs in; put the code into that one"),
    FixedSetting(
        "spark.pyspark.driver.python", "workers run the Python that Holdfast runs in; put the code into that one"
    ),
    FixedSetting(
        "spark.speculation", "a second copy of a slot would write the state of its tasks at the same time", "false"
    ),
    FixedSetting(
        "spark.dynamicAllocation.enabled", "executors that go take the state of their tasks with them", "false"
    ),
    FixedSetting("spark.task.cpus", "a slot is one core; set spec.runtime.executors.cores", "1"),
    FixedSetting("spark.executor.instances", f"{_SIZE}.count"),
    FixedSetting("spark.executor.cores", f"{_SIZE}.cores"),
    FixedSetting("spark.executor.memory", f"{_SIZE}.memory"),
    FixedSetting("spark.driver.cores", "is given by spec.runtime.driver.cores"),
    FixedSetting("spark.driver.memory", "is given by spec.runtime.driver.memory"),
    FixedSetting(
        "spark.sql.adaptive.enabled", "a plan changed while it runs would move slots off their executors", "false"
    ),
    FixedSetting("spark.sql.adaptive.streaming.stateless.enabled", "as spark.sql.adaptive.enabled", "false"),
    FixedSetting("spark.sql.session.timeZone", "times are UTC everywhere; convert them in a step", "UTC"),
    FixedSetting("spark.sql.ansi.enabled", "the plan's types are those of ANSI mode", "true"),
    FixedSetting("spark.sql.caseSensitive", "the plan finds columns as Spark does by default", "false"),
    FixedSetting("spark.sql.timestampType", "TIMESTAMP in a schema means a moment in time", "TIMESTAMP_LTZ"),
    FixedSetting(
        "spark.sql.legacy.timeParserPolicy", "Spark and Python would write times of long ago differently", "CORRECTED"
    ),
    FixedSetting("spark.sql.icu.caseMappings.enabled", "Spark and Python would write letters differently", "true"),
    FixedSetting("spark.driver.extraJavaOptions", _LETTERS, "en", _LANGUAGE),
    FixedSetting("spark.executor.extraJavaOptions", _LETTERS, "en", _LANGUAGE),
    FixedSetting(
        "spark.sql.execution.arrow.useLargeVarTypes", "rows travel between steps with other Arrow types", "false"
    ),
)
"""The settings that are refused, each with its reason."""


@dataclass(frozen=True, slots=True)
class SessionRequest:
    """The request for a session."""

    app: str
    master: str
    ui: bool
    conf: Mapping[str, str]
    """The app's own settings, as the user gave them; they are checked."""
    memory: str = "1g"
    """Java heap of the driver, as Spark or Kubernetes writes it."""
    given: Mapping[str, str] = field(default_factory=dict)
    """Settings that come with the site where the app runs, and override the app's."""
    rows_in_spark: bool = True
    """Whether rows pass through Spark SQL, or only through Python."""

    @property
    def local(self) -> bool:
        """Whether everything runs on this host."""
        return self.master.startswith("local")


def session_settings(request: SessionRequest) -> dict[str, str]:
    """Return all settings; raise `SparkSettingRefusedError` that names every setting that can't be chosen."""
    check_settings(request.conf, request.given)
    settings = {
        # A batch that fails usually fails again, and then the attempt is repeated; one more try is for brief failures.
        "spark.task.maxFailures": "2",
        "spark.sql.streaming.checkpointFileManagerClass": _CHECKPOINT_FILES,
        # Rows of all steps travel in one frame, a struct per step; with more fields Spark no longer compiles its plan.
        "spark.sql.codegen.maxFields": "2000",
        # Over TCP, a small answer waits up to 40 ms until the part before it is acknowledged.
        "spark.python.unix.domain.socket.enabled": "true",
        # PySpark would record the Python line of each operation on a frame: it costs every batch, and nobody reads it.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        **({"spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"} if request.local else {}),
        **request.conf,
        **request.given,
        "spark.master": request.master,
        "spark.app.name": request.app,
        "spark.submit.deployMode": "client",
        "spark.driver.memory": as_spark(request.memory),
        "spark.ui.enabled": "true" if request.ui else "false",
        # Spark's own progress bar would draw over ours.
        "spark.ui.showConsoleProgress": "false",
        "spark.python.daemon.module": "holdfast_runtime.spark.worker_daemon",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.adaptive.streaming.stateless.enabled": "false",
        "spark.speculation": "false",
    }
    return settings | _java_options(request)


def check_settings(conf: Mapping[str, str], site_settings: Mapping[str, str] | None = None) -> None:
    """Raise `SparkSettingRefusedError` that names every setting that can't be chosen; `site_settings`: the site's."""
    wrong = [
        f"{name}: {fixed.why}"
        for name, value in sorted(conf.items())
        for fixed in FIXED_SETTINGS
        if fixed.hits(name, value)
    ]
    wrong += [
        f"{name}: comes with the cluster, as {value}"
        for name, value in sorted((site_settings or {}).items())
        if conf.get(name, value) != value and not any(fixed.hits(name, conf[name]) for fixed in FIXED_SETTINGS)
    ]
    wrong += [f"{name}: Spark's settings begin with spark." for name in sorted(conf) if not name.startswith("spark.")]
    if wrong:
        listed = "\n".join(f"  {line}" for line in wrong)
        message = f"spec.runtime.sparkConf has settings that can't be chosen; remove them:\n{listed}"
        raise SparkSettingRefusedError(message)


def _java_options(request: SessionRequest) -> dict[str, str]:
    # If no row passes through Java, its second compiler never pays off: it takes a tenth of an app's CPU in the first
    # ten seconds. Rows never pass through the driver if executors are processes of their own.
    executor = [] if request.rows_in_spark else [_ONE_COMPILER]
    driver = executor if request.local else [_ONE_COMPILER]
    # By default executors would log details of each task: a log that is full within the hour, and says nothing.
    always = [f"{_LANGUAGE}en", f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"]
    settings = {}
    for process, options in (("driver", driver), ("executor", executor)):
        name = f"spark.{process}.extraJavaOptions"
        # In Java the last of two equal options counts, so the user's come last.
        settings[name] = " ".join([*always, *options, *filter(None, [request.conf.get(name)])])
    return settings
