"""`holdfast render` prints what plans and runs as the file does, with the modules beside it and all that was in it."""

from pathlib import Path
from string import printable

import pytest
import yaml  # type: ignore[import-untyped]
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from holdfast.planning.plan import PlanningFacts, plan
from holdfast_cli.plan.app_file import app_file, load_app
from holdfast_cli.plan.render_command import rendered_text
from holdfast_runtime.inspection.packed_app import PackedApp
from holdfast_runtime.streams.user_functions import load_function
from tests.cli.conftest import EXAMPLE, Holdfast

APP = """\
# Where parcels go.
apiVersion: v1
kind: Secret
metadata: {name: login}
---
apiVersion: holdfast.dev/v1alpha1
kind: StreamApp
metadata: {name: parcels}
spec:
  systems: [{name: local, log: {}}]
  streams:
  - {name: parcels, system: local, partitions: 1, schema: "n INT"}   # as they come
  - {name: zoned, system: local, partitions: 1}
  steps:
  - {name: by-zone, from: [parcels], apply: {function: "zones:add"}}
  - {name: out, from: [by-zone], to: zoned}
"""
ZONES = '"""Zones."""\nimport postcodes\n\ndef add(batch):\n    return batch\n\n\n# the end'


def write(text: str = APP, **modules: str) -> None:
    """The app, and modules beside it."""
    Path("app.yaml").write_text(text, encoding="utf-8")
    for name, module in modules.items():
        Path(f"{name}.py").write_text(module, encoding="utf-8")


@pytest.mark.parametrize(
    "runtime",
    ["", "  runtime: {trigger: {interval: 5s}}\n", "  runtime: {code: {old: 'x = 1'}}  # kept\n", "  runtime:\n"],
)
def test_modules_beside_are_packed_and_all_else_stays(holdfast: Holdfast, runtime: str) -> None:
    write(APP + runtime, zones=ZONES, postcodes="DIGITS = 5\n", test_zones="1 / 0\n")
    before = load_app("app.yaml").app
    ran = holdfast("render", "app.yaml")
    assert (ran.code, ran.err) == (0, "packed: postcodes, zones\n")
    assert "# Where parcels go." in ran.out
    assert "kind: Secret" in ran.out
    assert "# as they come" in ran.out
    assert '      zones: |-\n        """Zones."""\n        import postcodes\n' in ran.out
    Path("rendered.yaml").write_text(ran.out, encoding="utf-8")
    after = load_app("rendered.yaml").app
    assert before is not None
    assert after is not None
    code = {**before.spec.runtime.code, "zones": ZONES, "postcodes": "DIGITS = 5\n"}
    assert after.spec.runtime == before.spec.runtime.model_copy(update={"code": code})
    assert plan(after, PlanningFacts()) == plan(before, PlanningFacts())


def test_an_app_in_python_is_rendered_as_yaml(holdfast: Holdfast) -> None:
    write(zones=ZONES, postcodes="DIGITS = 5\n")
    Path("app.py").write_text(holdfast("python", "app.yaml").out, encoding="utf-8")
    ran = holdfast("render", "app.py")
    assert (ran.code, ran.err) == (0, "packed: postcodes, zones\n")
    Path("rendered.yaml").write_text(ran.out, encoding="utf-8")
    rendered, from_yaml = load_app("rendered.yaml").app, holdfast("render", "app.yaml").out
    assert rendered == app_file(from_yaml, "app.yaml").app


def test_a_rendered_file_runs_and_renders_as_itself(holdfast: Holdfast) -> None:
    write(zones=ZONES, postcodes="DIGITS = 5\n")
    Path("rendered.yaml").write_text(rendered := holdfast("render", "app.yaml").out, encoding="utf-8")
    assert holdfast("render", "rendered.yaml").out == rendered


def test_a_packed_package_runs_without_its_files(holdfast: Holdfast) -> None:
    ran = holdfast("render", str(EXAMPLE.parents[1] / "parcel-zones" / "app.yaml"))
    (tree,) = YAML(typ="safe").load_all(ran.out)
    code = tree["spec"]["runtime"]["code"]
    assert set(code) == {"parcels", "parcels.demo", "parcels.zones"}
    assert load_function("parcels.demo:parcels", code)(0, 0, 2).num_rows == 2
    code.pop("parcels")
    assert load_function("parcels.zones:add", code).__module__ == "parcels.zones"
    load_function("json:dumps")


def test_modules_of_the_image_are_named(holdfast: Holdfast) -> None:
    write()
    ran = holdfast("render", "app.yaml")
    assert (ran.code, ran.out) == (0, APP)
    assert ran.err == "not packed, so the image must have it: zones\n"


@pytest.mark.parametrize(
    ("module", "message"),
    [
        ("def ad():\n    pass\n", "CodeInvalid: runtime.code.zones has no add; did you mean ad?"),
        ("def\n", "CodeInvalid: runtime.code.zones is not Python: line 1"),
    ],
)
def test_a_module_that_can_not_run_is_refused(holdfast: Holdfast, module: str, message: str) -> None:
    write(zones=module)
    ran = holdfast("render", "app.yaml")
    assert (ran.code, ran.out) == (1, "")
    assert message in ran.err


def test_modules_larger_than_an_object_are_refused(holdfast: Holdfast) -> None:
    write(
        zones=f"import names\ndef add(batch):\n    return batch\nX = {'x' * 300_000!r}\n",
        names=f"N = {'n' * 800_000!r}\n",
    )
    ran = holdfast("render", "app.yaml")
    assert (ran.code, ran.out) == (2, "")
    assert "the largest: names 800,010, zones 300,0" in ran.err
    assert "put them into an image of your own" in ran.err


def test_more_modules_than_the_spec_holds_are_refused(holdfast: Holdfast) -> None:
    names = [f"beside_{number}" for number in range(100)]
    write(
        zones="".join(f"import {name}\n" for name in names) + "def add():\n    pass\n",
        **dict.fromkeys(names, "x = 1\n"),
    )
    ran = holdfast("render", "app.yaml")
    assert ran.code == 2
    assert "uses 101 modules beside it, and runtime.code holds 100" in ran.err


def test_a_large_app_is_applied_on_the_server(holdfast: Holdfast) -> None:
    write(zones=f"def add(batch):\n    return batch\nX = {'x' * 300_000!r}\n")
    assert "use kubectl apply --server-side" in holdfast("render", "app.yaml").err


def test_an_invalid_app_is_not_rendered(holdfast: Holdfast) -> None:
    write(APP.replace("to: zoned", "to: zone"), zones=ZONES)
    ran = holdfast("render", "app.yaml")
    assert ran.code == 1
    assert "did you mean zoned?" in ran.err


TEXTS = st.text(st.one_of(st.sampled_from(printable + "\x85\u2028\ufeff\x0c"), st.characters(codec="utf-8")))


@given(TEXTS, st.sampled_from(["", "  runtime: {code: {old: 'x = 1'}}\n", "  runtime:\n    trigger: {interval: 5s}\n"]))
def test_any_text_comes_back_from_a_rendered_file(text: str, runtime: str) -> None:
    file = app_file(APP + runtime, "app.yaml")
    assert file.app is not None
    code = {**file.app.spec.runtime.code, "zones": text}
    spec = file.app.spec.model_copy(update={"runtime": file.app.spec.runtime.model_copy(update={"code": code})})
    packed = PackedApp(file.app.model_copy(update={"spec": spec}), {"zones": text}, (), 0)
    # As kubectl reads it, which knows YAML 1.1.
    app = [tree for tree in yaml.safe_load_all(rendered_text(file, packed)) if tree["kind"] == "StreamApp"]
    assert app[0]["spec"]["runtime"]["code"]["zones"] == text
