"""What makes two executors share a disk, and what is said where that can't be told."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import HoldfastError, UserActionError, WorldChangeError
from holdfast.placement.location import (
    KEYED_FIELDS,
    PLAIN_FIELDS,
    LocationInvalidError,
    LocationMissingError,
    NodeFacts,
    PodFacts,
    PodNotScheduledError,
    check_location,
    location_fields,
    location_of,
)
from tests.docs.pages import ROOT

POD = PodFacts(
    name="exec-1",
    uid="5f0c",
    namespace="ads",
    labels={"app": "clicks", "example.com/disk.group": "g7", "empty": ""},
    annotations={"example.com/slot": "s3"},
    claim="state-exec-1",
)
NODE = NodeFacts(
    name="node-a",
    labels={"rack": "r1", "topology.kubernetes.io/zone": "eu-1a"},
    annotations={"maintainer": "ops team"},
)


@pytest.mark.parametrize(
    ("kind", "location"),
    [
        ("Claim", "state-exec-1"),
        ("Node", "node-a"),
        ("Pod", "5f0c"),
        ("{node.labels.rack}/{node.name}", "r1/node-a"),
        ("{node.labels.topology.kubernetes.io/zone}", "eu-1a"),
        ("zone-{node.labels.topology.kubernetes.io/zone}-disk", "zone-eu-1a-disk"),
        ("{node.annotations.maintainer}", "ops team"),
        ("{pod.name}.{pod.uid}.{pod.namespace}", "exec-1.5f0c.ads"),
        ("{pod.labels.app}:{pod.labels.example.com/disk.group}", "clicks:g7"),
        ("{pod.annotations.example.com/slot}", "s3"),
        ("{node.name}{node.name}", "node-anode-a"),
    ],
)
def test_a_location_is_read_from_pod_and_node(kind: str, location: str) -> None:
    check_location(kind)
    assert location_of(kind, POD, NODE) == location


def test_what_a_label_says_is_never_read_as_a_template() -> None:
    node = replace(NODE, labels={"rack": "{pod.uid}\\1"})
    assert location_of("{node.labels.rack}", POD, node) == "{pod.uid}\\1"


@pytest.mark.parametrize("kind", ["Node", "{node.name}", "{pod.name}/{node.labels.rack}"])
def test_a_pod_that_is_not_scheduled_has_no_location_yet(kind: str) -> None:
    with pytest.raises(PodNotScheduledError, match=r"exec-1 is on no node yet.*wait until it is scheduled") as caught:
        location_of(kind, POD, None)
    assert isinstance(caught.value, WorldChangeError)


@pytest.mark.parametrize("kind", ["Claim", "Pod", "{pod.labels.app}"])
def test_a_location_independent_of_the_node_needs_none(kind: str) -> None:
    assert location_of(kind, POD, None) == location_of(kind, POD, NODE)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("{node.labels.zone}", ["exec-1", "{node.labels.zone}", "its node node-a has no label zone", "set the label"]),
        ("{node.labels.rac}", ["its node node-a has no label rac; did you mean rack?"]),
        ("{pod.labels.shelf}", ["exec-1", "the pod has no label shelf"]),
        ("{pod.labels.empty}", ["the pod has an empty label empty"]),
        ("{pod.annotations.slot}", ["the pod has no annotation slot", "set the annotation slot on the pod"]),
    ],
)
def test_a_missing_label_is_an_error_naming_pod_and_label(kind: str, words: list[str]) -> None:
    with pytest.raises(LocationMissingError) as caught:
        location_of(kind, POD, NODE)
    assert isinstance(caught.value, UserActionError)
    assert [word for word in words if word not in str(caught.value)] == []


def test_a_pod_without_claim_has_no_location_under_claim() -> None:
    with pytest.raises(LocationMissingError, match="pod exec-1 mounts no volume claim"):
        location_of("Claim", replace(POD, claim=None), NODE)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("claim", ["'claim' would give all executors one location", "did you mean Claim?"]),
        ("", ["would give all executors one location", "Claim, Node, Pod"]),
        ("rack-1", ["would give all executors one location"]),
        ("{node.name", ["brace without its partner"]),
        ("node.name}", ["brace without its partner"]),
        ("{node.name}}", ["brace without its partner"]),
        ("{{node.name}}", ["brace without its partner"]),
        ("{}", ["there is no field {}"]),
        ("{node.nam}", ["there is no field {node.nam}", "did you mean node.name?"]),
        ("{node.label.rack}", ["did you mean node.labels.rack?"]),
        ("{node.uid}", ["there is no field {node.uid}"]),
        ("{ node.name }", ["there is no field { node.name }", "did you mean node.name?"]),
        ("{labels.rack}", ["there is no field {labels.rack}"]),
        ("{node.labels}", ["it does not say which of the labels", "{node.labels.rack}"]),
        ("{node.labels.}", ["'' can't be a key of labels"]),
        ("{pod.annotations.a b}", ["'a b' can't be a key of annotations"]),
        ("{pod.labels.a/b/c}", ["'a/b/c' can't be a key of labels"]),
        ("{node.name}/{pod.nome}", ["'{node.name}/{pod.nome}'", "there is no field {pod.nome}"]),
    ],
)
def test_an_impossible_location_is_refused_without_a_pod(kind: str, words: list[str]) -> None:
    with pytest.raises(LocationInvalidError) as caught:
        check_location(kind)
    assert [word for word in words if word not in str(caught.value)] == []
    with pytest.raises(LocationInvalidError):
        location_of(kind, POD, NODE)


PIECES = st.sampled_from(
    ["{", "}", ".", "/", "node", "pod", "labels", "annotations", "name", "uid", "rack", "{node.name}", "{pod.labels.x}"]
)


@given(st.text(max_size=20) | st.lists(PIECES, max_size=8).map("".join))
def test_any_text_gives_a_location_or_a_reason(kind: str) -> None:
    try:
        check_location(kind)
        location_of(kind, POD, NODE)
    except LocationMissingError:
        check_location(kind)
    except HoldfastError as error:
        assert isinstance(error, LocationInvalidError)


@given(st.from_regex(r"[a-z]{1,6}(\.[a-z]{1,6}){0,2}(/[A-Za-z]{1,6})?", fullmatch=True), st.text(min_size=1))
def test_any_label_key_with_dots_and_slashes_is_found(key: str, value: str) -> None:
    node = replace(NODE, labels={key: value})
    assert location_of(f"<{{node.labels.{key}}}>", POD, node) == f"<{value}>"


def test_the_page_names_exactly_the_fields_of_a_template() -> None:
    rows = re.findall(r"^\| `\{((?:pod|node)\.[^}]*)\}` \|", (ROOT / "docs" / "state.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted([*PLAIN_FIELDS, *(f"{field}.KEY" for field in KEYED_FIELDS)])
    assert location_fields("{node.labels.rack}/{node.name}") == {"node.labels.rack", "node.name"}
