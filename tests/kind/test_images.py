"""The images as built: who runs in them, what is in them, what is not, and that apps start."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast_operator.manifests.driver_pod import USER
from images.build.images import IMAGES, build, version
from tests.cluster import docker
from tests.cluster.steps import step
from tests.kind.images import Images

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "parcel-zones"
DERIVED = "holdfast.test/parcels"
MOST = {"operator": 260, "runtime": 1150, "kafka": 400}
"""Megabytes."""
CLOSED = ("--cap-drop=ALL", "--security-opt=no-new-privileges", "--network=none", f"--user={USER}")
WRITABLE = ("/tmp", "/var/tmp", "/run/lock", "/dev", "/home/spark", "/var/lib/holdfast")  # noqa: S108 - in there
_START = 120.0


def inside(image: str, *command: str, options: tuple[str, ...] = CLOSED) -> str:
    """What a program says in a container as closed as pods are."""
    first, *rest = command
    return docker.ask("run", "--rm", *options, "--entrypoint", first, image, *rest, seconds=_START)


@pytest.fixture(params=["operator", "runtime", "kafka"])
def image(request: pytest.FixtureRequest, images: Images) -> str:
    name: str = getattr(images, request.param)
    return name


def test_an_image_runs_as_somebody_without_rights(image: str) -> None:
    user = docker.ask("image", "inspect", "--format", "{{.Config.User}}", image)
    assert int(user) > 0
    writable = "find / -xdev -type d -writable -not -path '/proc/*' 2>/dev/null || true"
    places = docker.ask("run", "--rm", "--entrypoint", "sh", image, "-c", writable, seconds=_START).split()
    assert {place for place in places if not place.startswith(WRITABLE)} == set()


def test_an_image_is_no_larger_than_it_must_be(image: str) -> None:
    megabytes = int(docker.ask("image", "inspect", "--format", "{{.Size}}", image)) / 1e6
    assert megabytes < MOST[image.partition(":")[0].rpartition("/")[2]]


@pytest.mark.parametrize("name", ["operator", "runtime"])
def test_nothing_stays_of_what_only_builds_need(name: str, images: Images) -> None:
    words = r"find / -xdev \( -name pip.conf -o -name holdfast-builder.crt -o -name pip -o -path '*/bin/gcc*' \)"
    assert inside(getattr(images, name), "sh", "-c", f"{words} 2>/dev/null || true") == ""
    history = docker.ask("image", "history", "--no-trunc", "--format", "{{.CreatedBy}}", getattr(images, name))
    assert "PIP_" not in history


@pytest.mark.parametrize("name", IMAGES)
def test_a_second_build_is_the_same_image(name: str, images: Images) -> None:
    before = docker.ask("image", "inspect", "--format", "{{.Id}}", getattr(images, name))
    again = build([name])[name]
    assert again == getattr(images, name)
    assert docker.ask("image", "inspect", "--format", "{{.Id}}", again) == before


@pytest.mark.parametrize("name", ["operator", "runtime"])
def test_holdfast_is_the_one_of_this_tree(name: str, images: Images) -> None:
    assert inside(getattr(images, name), "holdfast", "--version") == f"holdfast {version()}"


def test_the_operator_starts_with_a_root_that_it_cannot_write(images: Images) -> None:
    options = (*CLOSED, "--read-only", "--tmpfs=/tmp:size=16m")
    assert "usage: holdfast-operator" in docker.ask("run", "--rm", *options, images.operator, "--help", seconds=_START)


def test_the_driver_starts_as_the_operator_starts_it(images: Images) -> None:
    output = docker.ask("run", "--rm", *CLOSED, images.runtime, "driver", "--help", seconds=_START)
    assert "FOLDER holds app.json, attempt.json and spark.json" in output


def test_texts_of_all_languages_are_right(images: Images) -> None:
    words = "import locale, sys; print(locale.getpreferredencoding(), sys.getfilesystemencoding(), chr(0x17d))"
    assert inside(images.runtime, "python", "-c", words) == "UTF-8 utf-8 Ž"


def test_javas_archive_fits_the_class_paths_of_driver_and_executor(images: Images) -> None:
    words = 'java $SPARK_SUBMIT_OPTS -Xshare:on -cp "$SPARK_HOME/conf:$SPARK_HOME/jars/*" -version 2>&1'
    assert "sharing" in inside(images.runtime, "sh", "-c", words)


def test_another_class_path_passes_over_the_archive_without_a_word(images: Images) -> None:
    words = 'java $SPARK_SUBMIT_OPTS -cp "/tmp/my.jar:$SPARK_HOME/jars/*" -version 2>&1'
    output = inside(images.runtime, "sh", "-c", words)
    assert "openjdk version" in output.splitlines()[0]


def test_an_executor_is_started_with_the_options_that_spark_wants(images: Images) -> None:
    # Java says how it understood them, and ends.
    variables = {
        "SPARK_EXECUTOR_MEMORY": "300m",
        "SPARK_DRIVER_URL": "spark://CoarseGrainedScheduler@127.0.0.1:1",
        "SPARK_EXECUTOR_ID": "1",
        "SPARK_EXECUTOR_CORES": "1",
        "SPARK_APPLICATION_ID": "app",
        "SPARK_EXECUTOR_POD_IP": "127.0.0.1",
        "SPARK_EXECUTOR_POD_NAME": "pod",
        "SPARK_RESOURCE_PROFILE_ID": "0",
        "SPARK_JAVA_OPT_0": "-Dwith.a=blank in it",
        "SPARK_JAVA_OPT_1": "-XX:+PrintFlagsFinal",
        "SPARK_JAVA_OPT_2": "--dry-run",
    }
    environment = [f"--env={name}={value}" for name, value in variables.items()]
    output = docker.ask("run", "--rm", *CLOSED, *environment, images.runtime, "executor", seconds=_START)
    flags = {line.split()[1]: line.split()[3] for line in output.splitlines() if len(line.split()) > 3}
    assert flags["MaxHeapSize"] == str(300 << 20)
    assert flags["SharedArchiveFile"] == "/opt/spark.jsa"


@pytest.fixture(scope="session")
def derived(images: Images) -> Iterator[str]:
    with step("derived image") as work:
        docker.build(work, EXAMPLE / "Dockerfile", EXAMPLE, DERIVED, {"RUNTIME": images.runtime})
    yield DERIVED
    docker.ask("image", "rm", DERIVED)


def test_an_app_runs_with_a_package_of_its_own_image(derived: str) -> None:
    """As the example's Dockerfile puts it there."""
    mount = f"--volume={EXAMPLE / 'app.yaml'}:/app.yaml:ro"
    command = ("holdfast", "run", "/app.yaml", "--batches", "4", "--no-ui", "-o", "json")
    output = docker.ask("run", "--rm", *CLOSED, mount, derived, *command, seconds=_START)
    last = json.loads(output.splitlines()[-1])
    assert last["rowsOut"] > 0, output
