"""Which settings of Spark a user may choose, and what the others are."""

from pathlib import Path

import pytest

import holdfast_runtime
from holdfast_runtime.spark.settings import (
    FIXED_SETTINGS,
    FixedSetting,
    SessionRequest,
    SparkSettingRefusedError,
    check_settings,
    session_settings,
)

PACKAGE = Path(str(holdfast_runtime.__file__)).parent
ALWAYS = f"-Duser.language=en -Dlog4j2.configurationFile={(PACKAGE / 'spark' / 'log4j2.properties').as_uri()}"


def settings(master: str = "local[2]", **conf: str) -> dict[str, str]:
    named = {name.replace("__", "."): value for name, value in conf.items()}
    return session_settings(SessionRequest("ad-clicks", master, ui=False, conf=named))


def test_what_the_engine_stands_on_is_set() -> None:
    spark_conf = settings()
    expected = {
        "spark.master": "local[2]",
        "spark.app.name": "ad-clicks",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.adaptive.enabled": "false",
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
    }
    assert {name: spark_conf.get(name) for name in expected} == expected
    assert spark_conf["spark.sql.streaming.checkpointFileManagerClass"].endswith(
        ".FileSystemBasedCheckpointFileManager"
    )


def test_on_a_cluster_the_driver_is_reachable() -> None:
    assert "spark.driver.host" not in settings("k8s://https://kubernetes.default.svc")


@pytest.mark.parametrize("who", ["driver", "executor"])
def test_the_logging_file_is_part_of_the_package(who: str) -> None:
    assert settings()[f"spark.{who}.extraJavaOptions"] == ALWAYS
    assert Path(ALWAYS.removeprefix("-Duser.language=en -Dlog4j2.configurationFile=file://")).read_text(
        encoding="utf-8"
    )


def test_users_settings_are_kept_and_added_to() -> None:
    spark_conf = settings(
        spark__task__maxFailures="7",
        spark__driver__extraJavaOptions="-Xss4m",
        spark__executorEnv__PYTHONPATH="/lib",
    )
    assert spark_conf["spark.task.maxFailures"] == "7"
    assert spark_conf["spark.driver.extraJavaOptions"].endswith(" -Xss4m")
    assert spark_conf["spark.executorEnv.PYTHONPATH"] == "/lib"


def test_rows_that_stay_in_python_need_one_compiler_of_java() -> None:
    option = "-XX:TieredStopAtLevel=4"
    conf = {"spark.executor.extraJavaOptions": option}
    spark_conf = session_settings(SessionRequest("ad-clicks", "local[2]", ui=False, conf=conf, rows_in_spark=False))
    assert spark_conf["spark.driver.extraJavaOptions"].endswith(" -XX:TieredStopAtLevel=1")
    assert spark_conf["spark.executor.extraJavaOptions"] == f"{ALWAYS} -XX:TieredStopAtLevel=1 {option}"
    assert "TieredStopAtLevel" not in settings()["spark.driver.extraJavaOptions"]
    assert settings()["spark.executor.extraJavaOptions"] == ALWAYS


def test_a_driver_beside_its_executors_needs_one_compiler_of_java() -> None:
    spark_conf = settings("k8s://https://kubernetes.default.svc")
    assert spark_conf["spark.driver.extraJavaOptions"].endswith(" -XX:TieredStopAtLevel=1")
    assert spark_conf["spark.executor.extraJavaOptions"] == ALWAYS


def test_memory_is_written_as_spark_knows_it() -> None:
    spark_conf = session_settings(SessionRequest("a", "local", ui=True, conf={}, memory="2Gi"))
    assert (spark_conf["spark.driver.memory"], spark_conf["spark.ui.enabled"]) == ("2g", "true")


@pytest.mark.parametrize("fixed", FIXED_SETTINGS, ids=lambda fixed: fixed.name)
def test_a_setting_that_breaks_the_engine_is_refused_with_reason(fixed: FixedSetting) -> None:
    with pytest.raises(SparkSettingRefusedError) as refused:
        check_settings({fixed.name: f"{fixed.option}something"})
    assert f"{fixed.name}: {fixed.why}" in str(refused.value)


def test_all_refused_settings_are_named_at_once() -> None:
    with pytest.raises(SparkSettingRefusedError) as refused:
        settings(spark__speculation="true", spark__sql__adaptive__enabled="true", other="1", spark__fine="1")
    named = [line.split(":")[0].strip() for line in str(refused.value).splitlines()[1:]]
    assert named == ["spark.speculation", "spark.sql.adaptive.enabled", "other"]


@pytest.mark.parametrize(
    "fixed", [one for one in FIXED_SETTINGS if one.unless is not None], ids=lambda fixed: fixed.name
)
def test_the_value_that_does_no_harm_is_accepted(fixed: FixedSetting) -> None:
    check_settings({fixed.name: f"{fixed.option}{str(fixed.unless).upper()}"})


def test_one_java_option_among_others_is_refused() -> None:
    with pytest.raises(SparkSettingRefusedError, match=r"another -Duser\.language= than en"):
        check_settings({"spark.driver.extraJavaOptions": "-Xss4m -Duser.language=tr -Duser.language=en"})
    check_settings({"spark.driver.extraJavaOptions": "-Xss4m -Duser.country=TR"})


def test_what_comes_with_the_cluster_needs_nobodys_leave_and_counts() -> None:
    cluster_conf = {"spark.executor.instances": "3", "spark.app.id": "ads-1", "spark.driver.host": "10.0.0.1"}
    spark_conf = session_settings(
        SessionRequest("ads", "k8s://here", ui=True, conf={"spark.app.id": "ads-1"}, given=cluster_conf)
    )
    assert spark_conf.items() >= cluster_conf.items()


def test_a_setting_of_the_cluster_is_not_the_users_choice() -> None:
    cluster_conf = {"spark.executor.instances": "3", "spark.app.id": "ads-1"}
    conf = {"spark.app.id": "mine", "spark.executor.instances": "9"}
    with pytest.raises(SparkSettingRefusedError) as refused:
        session_settings(SessionRequest("ads", "k8s://here", ui=True, conf=conf, given=cluster_conf))
    named = [line.strip() for line in str(refused.value).splitlines()[1:]]
    assert named == [
        "spark.executor.instances: is given by spec.runtime.executors.count",
        "spark.app.id: comes with the cluster, as ads-1",
    ]
