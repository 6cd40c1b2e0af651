"""The page about versions of the API speaks of those that there are."""

import re
from io import StringIO

from ruamel.yaml import YAML

from tests.docs.pages import ROOT


def test_the_pages_one_version_is_served_and_stored() -> None:
    crd = YAML(typ="safe", pure=True).load(StringIO((ROOT / "crds" / "streamapps.holdfast.dev.yaml").read_text()))
    versions = [one["name"] for one in crd["spec"]["versions"] if one["served"] and one["storage"]]
    assert len(crd["spec"]["versions"]) == 1, "there is another version: tell on the page what it means"
    page = (ROOT / "docs" / "operations.md").read_text(encoding="utf-8")
    assert re.findall(r"one version of the API: `holdfast.dev/(\w+)`", page) == versions


def test_no_field_is_deprecated_as_the_page_says() -> None:
    assert "Deprecated" not in (ROOT / "docs" / "reference" / "spec.md").read_text(encoding="utf-8")
