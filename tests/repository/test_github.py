"""What GitHub reads of the repository fits the tree: workflows, forms, owners and the settings of renovate."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from tests.cluster.node_image import ensure_node_image
from tests.docs.pages import ROOT
from tests.go_programs import Program, built

GITHUB = ROOT / ".github"
WORKFLOWS = sorted((GITHUB / "workflows").glob("*.yml"))
ACTIONLINT = Program("actionlint", Path(__file__).with_name("actionlint"), "github.com/rhysd/actionlint/cmd/actionlint")
BY_FILE = pytest.mark.parametrize("workflow", WORKFLOWS, ids=lambda path: path.stem)


def read(path: Path) -> Any:
    return YAML(typ="safe", pure=True).load(path)


@BY_FILE
def test_workflows_may_only_read_and_jobs_have_a_limit(workflow: Path) -> None:
    tree = read(workflow)
    assert tree["permissions"] == {"contents": "read"}
    assert all(job["timeout-minutes"] <= 180 for job in tree["jobs"].values())


@BY_FILE
def test_actions_are_named_by_commit_and_their_version_stands_beside(workflow: Path) -> None:
    uses = re.findall(r"uses: (.*)", workflow.read_text(encoding="utf-8"))
    assert uses
    assert [line for line in uses if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line)] == []


def test_every_target_that_a_workflow_makes_is_in_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    made = [re.findall(r"run: make (.*)", workflow.read_text(encoding="utf-8")) for workflow in WORKFLOWS]
    assert {target for lines in made for line in lines for target in line.split()} <= targets


def test_clusters_cover_each_kubernetes_from_the_charts_oldest() -> None:
    nodes = read(GITHUB / "workflows" / "nightly.yml")["jobs"]["cluster"]["strategy"]["matrix"]["node"]
    minors = [int(node.partition(":v1.")[2].partition(".")[0]) for node in nodes]
    oldest = read(ROOT / "charts/holdfast/Chart.yaml")["kubeVersion"]
    assert minors == [*range(int(re.findall(r">=1\.(\d+)\.0-0", oldest)[0]), max(minors) + 1)]


def test_a_cluster_has_the_nodes_that_the_environment_names(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_NODE_IMAGE", "kindest/node:v1.33.4")
    monkeypatch.setattr("tests.cluster.docker.has", lambda image: image == "kindest/node:v1.33.4")
    assert ensure_node_image() == "kindest/node:v1.33.4"


def test_what_has_an_owner_is_there() -> None:
    lines = (GITHUB / "CODEOWNERS").read_text(encoding="utf-8").splitlines()
    paths = [line.split()[0] for line in lines if line and not line.startswith("#")]
    assert paths[0] == "*"
    assert [path for path in paths[1:] if not (ROOT / path.strip("/")).exists()] == []


@pytest.mark.parametrize("name", ["bug", "wish"])
def test_a_form_asks_each_thing_once(name: str) -> None:
    tree = read(GITHUB / "ISSUE_TEMPLATE" / f"{name}.yml")
    assert tree.keys() == {"name", "description", "labels", "body"}
    fields = [field for field in tree["body"] if field["type"] != "markdown"]
    names = [field["id"] for field in fields]
    assert len({*names}) == len(names)
    assert all(field["attributes"]["label"] for field in fields)


def test_renovate_finds_the_images_that_it_is_to_renew() -> None:
    settings = json.loads((GITHUB / "renovate.json").read_text(encoding="utf-8"))
    (manager,) = settings["customManagers"]
    (pattern,) = manager["matchStrings"]
    files = [str(path.relative_to(ROOT)) for path in (*WORKFLOWS, ROOT / "tests/cluster/node_image.py")]
    for file_pattern in manager["managerFilePatterns"]:
        (file,) = [file for file in files if re.search(file_pattern.strip("/"), file)]
        matches = re.findall(pattern.replace("?<", "?P<"), (ROOT / file).read_text(encoding="utf-8"))
        assert matches != []


def test_workflows_are_what_github_takes() -> None:
    ran = subprocess.run(
        [str(built(ACTIONLINT)), "-shellcheck=", "-pyflakes=", *map(str, WORKFLOWS)],
        check=False,
        capture_output=True,
        text=True,
    )
    assert (ran.returncode, ran.stdout) == (0, "")
