"""What the Dockerfiles say, without building them."""

import re
import tomllib
from pathlib import Path

import pytest

from holdfast_operator.manifests.driver_pod import USER
from images.build.images import IMAGES, files

ROOT = Path(__file__).parents[2]
DERIVED = sorted((ROOT / "examples").rglob("Dockerfile"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
SCRIPTS = [
    path
    for path in (ROOT / "images").rglob("*")
    if path.is_file() and path.suffix in {"", ".sh"} and "build" not in path.parts
]
HOST = re.compile(r"https?://(?!127\.0\.0\.1)|index-url|trusted-host|extra-index")
ARCHITECTURE = re.compile(r"amd64|x86[_-]64|aarch64|arm64|linux/")


def steps_of(name: str) -> list[tuple[str, str]]:
    """Instruction and words, lines joined, of all stages."""
    text = IMAGES[name].dockerfile.read_text().replace("\\\n", " ")
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    return [(line.split(" ", 1)[0], line.split(" ", 1)[1]) for line in lines]


def last_stage(name: str) -> list[tuple[str, str]]:
    steps = steps_of(name)
    at = max(number for number, (word, _) in enumerate(steps) if word == "FROM")
    return steps[at:]


def test_images_of_python_share_tools_that_are_built_once() -> None:
    texts = [one.dockerfile.read_text() for one in IMAGES.values() if not one.jars]
    tools = {text[text.index("AS builder") : text.index("FROM builder")] for text in texts}
    assert len(texts) == 2
    assert len(tools) == 1


@pytest.mark.parametrize("name", IMAGES)
def test_an_images_user_is_a_number_and_not_root(name: str) -> None:
    (user,) = [words for word, words in last_stage(name) if word == "USER"]
    assert int(user) > 0


@pytest.mark.parametrize("name", ["operator", "runtime"])
def test_the_user_is_the_one_that_pods_ask_for(name: str) -> None:
    assert ("USER", str(USER)) in last_stage(name)


@pytest.mark.parametrize("name", IMAGES)
def test_signals_reach_the_program(name: str) -> None:
    (entrypoint,) = [words for word, words in last_stage(name) if word == "ENTRYPOINT"]
    assert entrypoint.startswith('["tini", "--", ')


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_names_a_host_or_a_kind_of_processor(path: Path) -> None:
    text = path.read_text()
    assert not HOST.findall(text)
    assert not ARCHITECTURE.findall(text)


@pytest.mark.parametrize("name", IMAGES)
def test_any_debian_can_be_the_base(name: str) -> None:
    steps = steps_of(name)
    assert steps[0] == ("ARG", "BASE=debian:bookworm-slim")
    stages = {words.split(" AS ")[1] for word, words in steps if word == "FROM" and " AS " in words}
    bases = {words.split(" AS ")[0] for word, words in steps if word == "FROM"}
    assert bases <= stages | {"${BASE}", "${BUILDER}"}


@pytest.mark.parametrize("name", ["operator", "runtime"])
def test_what_is_only_for_building_stays_behind(name: str) -> None:
    """The last stage stands on the plain base, through stages that do."""
    stands_on = {}
    for word, words in steps_of(name):
        if word == "FROM":
            base, _, stage = words.partition(" AS ")
            stands_on[stage] = base
    at = stands_on[""]
    while at in stands_on:
        at = stands_on[at]
    assert at == "${BASE}"


@pytest.mark.parametrize("name", ["operator", "runtime"])
def test_packages_are_taken_from_the_lock_by_hash(name: str) -> None:
    fetch = (ROOT / "images" / "packages" / "fetch").read_text()
    assert "--require-hashes" in fetch
    assert "--no-deps" in fetch
    assert "--no-index" in (ROOT / "images" / "packages" / "install").read_text()
    pips = [words for word, words in steps_of(name) if word == "RUN" and re.search(r"pip (install|wheel)", words)]
    assert all("--no-index" in words for words in pips)


@pytest.mark.parametrize("name", ["operator", "runtime"])
def test_the_extras_of_an_image_exist(name: str) -> None:
    text = " ".join(words for word, words in steps_of(name) if word == "RUN")
    (extras,) = re.findall(rf"locked\.py ([a-z ]+) > /{name}\.txt", text)
    assert set(extras.split()) <= set(PROJECT["optional-dependencies"])


@pytest.mark.parametrize("name", ["operator", "runtime"])
def test_docker_is_shown_exactly_what_an_image_is_made_of(name: str) -> None:
    shown = [line for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!/")]
    tops = {Path(source).parts[0] for source in IMAGES[name].sources}
    assert {line.removeprefix("!/") for line in shown} == tops


@pytest.mark.parametrize("name", IMAGES)
def test_what_python_leaves_behind_does_not_make_another_image(name: str) -> None:
    sources = list(files(IMAGES[name]))
    assert sources
    assert not [one for one in sources if one.suffix in {".pyc", ".so"}]


@pytest.mark.parametrize("path", DERIVED, ids=lambda path: path.parent.name)
def test_an_example_derives_from_the_runtime_image_of_this_version(path: Path) -> None:
    assert f"ARG RUNTIME=holdfast/runtime:{PROJECT['version']}\nFROM ${{RUNTIME}}\n" in path.read_text()


def test_there_is_an_example_that_derives() -> None:
    assert DERIVED
