"""Modules beside an app's file: found first, with what they import from there, and never instead of installed ones."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from textwrap import dedent

import pytest

from holdfast.errors import UserActionError
from holdfast.spec.app import AppSpec
from holdfast.spec.parse import parse_app
from holdfast_runtime.streams.modules_beside import ModulesBeside, imported_modules, modules_beside
from holdfast_runtime.streams.user_functions import load_function, require_functions
from tests.error_codes import has_code


def app_calling(function: str, **code: str) -> AppSpec:
    """The spec of an app with one function."""
    streams = [{"name": name, "system": "local", "partitions": 1, "schema": "n INT"} for name in "ab"]
    steps = [{"name": "f", "from": ["a"], "apply": {"function": function}}, {"name": "out", "from": ["f"], "to": "b"}]
    spec = {"systems": [{"name": "local", "log": {}}], "streams": streams, "steps": steps, "runtime": {"code": code}}
    tree = {"apiVersion": "holdfast.dev/v1alpha1", "kind": "StreamApp", "metadata": {"name": "x"}, "spec": spec}
    return parse_app(tree).spec


def write(folder: Path, **files: str) -> None:
    """Modules by the names of their files, with `__` for a slash."""
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/', 1)}.py"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")


def called(function: str, folder: Path, **code: str) -> object:
    """What a function without parameters returns."""
    spec = app_calling(function, **code)
    return load_function(function, spec.runtime.code, modules_beside(spec, folder))()


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    """No module of a test stays."""
    yield
    load_function("json:dumps")


def test_a_module_beside_is_found_with_what_it_imports(tmp_path: Path) -> None:
    write(tmp_path, zones="import postcodes\ndef add():\n    return postcodes.DIGITS\n", postcodes="DIGITS = 5\n")
    assert called("zones:add", tmp_path) == 5


def test_packages_beside_are_found_with_relative_imports(tmp_path: Path) -> None:
    write(tmp_path, beside_p____init__="from .two import TWO\n", beside_p__two="TWO = 2\n")
    write(tmp_path, beside_p__one="from . import two\nfrom .two import TWO\ndef f():\n    return two.TWO + TWO\n")
    assert called("beside_p.one:f", tmp_path) == 4


def test_a_package_needs_no_init_file(tmp_path: Path) -> None:
    write(tmp_path, beside_n__one="from beside_n.two import TWO\ndef f():\n    return TWO\n", beside_n__two="TWO = 2\n")
    assert called("beside_n.one:f", tmp_path) == 2


def test_a_module_of_the_spec_imports_one_beside(tmp_path: Path) -> None:
    write(tmp_path, postcodes="DIGITS = 5\n")
    assert called("zones:add", tmp_path, zones="from postcodes import DIGITS\ndef add():\n    return DIGITS\n") == 5


def test_a_module_knows_its_file(tmp_path: Path) -> None:
    write(
        tmp_path,
        zones="from pathlib import Path\ndef text():\n    return Path(__file__).with_name('z.txt').read_text()",
    )
    (tmp_path / "z.txt").write_text("north", encoding="utf-8")
    assert called("zones:text", tmp_path) == "north"


def test_apps_of_two_folders_get_their_own_modules(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, zones="import names\ndef f():\n    return names.NAME\n", names=f"NAME = {name!r}\n")
    assert [called("zones:f", tmp_path / name) for name in ("one", "two", "one")] == ["one", "two", "one"]


def test_one_beside_goes_before_one_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("app", "path"):
        (tmp_path / name).mkdir()
        write(tmp_path / name, zones=f"def f():\n    return {name!r}\n")
    monkeypatch.syspath_prepend(str(tmp_path / "path"))
    assert load_function("zones:f")() == "path"
    assert called("zones:f", tmp_path / "app") == "app"


def test_a_module_imported_before_is_the_one_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, zones_t="NAME = 'true'\ndef f():\n    return NAME\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    import zones_t  # type: ignore[import-not-found]  # noqa: PLC0415

    monkeypatch.setattr(zones_t, "NAME", "replaced")
    assert called("zones_t:f", tmp_path) == "replaced"
    del sys.modules["zones_t"]


def test_an_edit_is_seen_by_the_next_run_alone(tmp_path: Path) -> None:
    write(tmp_path, zones="def f():\n    return 1\n")
    spec = app_calling("zones:f")
    before = modules_beside(spec, tmp_path)
    write(tmp_path, zones="def f():\n    return 2\n")
    assert load_function("zones:f", {}, before)() == 1
    assert load_function("zones:f", {}, modules_beside(spec, tmp_path))() == 2


def test_files_that_nothing_imports_are_not_touched(tmp_path: Path) -> None:
    write(
        tmp_path, zones="def f():\n    pass\n", test_zones="1 / 0\n", json="1 / 0\n", pandas="1 / 0\n", other="1 / 0\n"
    )
    beside = modules_beside(app_calling("zones:f"), tmp_path)
    assert list(beside.files) == ["zones"]
    require_functions(app_calling("zones:f"), beside)


@pytest.mark.parametrize(
    ("name", "whose"),
    [("json", "Python's own module json"), ("pandas", "the installed module .*pandas"), ("holdfast", "Holdfast's own")],
)
@pytest.mark.parametrize("function", ["{}:f", "zones:f"])
def test_a_file_named_like_an_installed_module_is_refused(tmp_path: Path, name: str, whose: str, function: str) -> None:
    write(tmp_path, zones=f"import {name}\ndef f():\n    pass\n")
    (tmp_path / f"{name}.py").write_text("def f():\n    pass\n", encoding="utf-8")
    with pytest.raises(
        UserActionError, match=f"has the name of {whose}.*: rename it", check=has_code("ModuleNameError")
    ):
        modules_beside(app_calling(function.format(name)), tmp_path)


def test_a_folder_of_other_files_hides_no_installed_module(tmp_path: Path) -> None:
    (tmp_path / "yaml").mkdir()
    write(tmp_path, zones="import yaml\ndef f():\n    pass\n")
    assert list(modules_beside(app_calling("zones:f"), tmp_path).files) == ["zones"]


def test_two_texts_of_one_module_are_refused(tmp_path: Path) -> None:
    write(tmp_path, zones="def f():\n    return 1\n")
    with pytest.raises(UserActionError, match=r"in runtime.code and, with another text, in .*zones.py"):
        called("zones:f", tmp_path, zones="def f():\n    return 2\n")
    assert called("zones:f", tmp_path, zones="def f():\n    return 1\n\n") == 1


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (
            "zone:f",
            r"zone:f: there is no module zone in .*; did you mean zones\?; write .*/zone.py, put it into runtime",
        ),
        ("zones:g", "zones:g: g is missing .there are: f.*comes from .*/zones.py"),
        ("broken:f", r"module broken fails when it is imported \(line 2\): ZeroDivisionError"),
        ("lacks:f", "module lacks imports no_such_thing, which is not installed and not in "),
        ("no_python:f", r"module no_python fails when it is imported \(line 1\): SyntaxError"),
    ],
)
def test_errors_of_modules_beside_say_where(tmp_path: Path, function: str, message: str) -> None:
    write(tmp_path, zones="def f():\n    pass\n", broken="\n1 / 0\n", lacks="import no_such_thing\n", no_python="def\n")
    with pytest.raises(UserActionError, match=message, check=has_code("FunctionMissingError")):
        called(function, tmp_path)


def test_without_a_file_nothing_is_looked_for() -> None:
    assert modules_beside(app_calling("zones:f"), None) == ModulesBeside()


@pytest.mark.parametrize(
    ("text", "is_package", "modules"),
    [
        ("import a.b, c as d", False, {"a.b", "c"}),
        ("from a import b, c", False, {"a", "a.b", "a.c"}),
        ("from a import *", False, {"a"}),
        ("from . import x", False, {"p", "p.x"}),
        ("from .. import x", False, set()),
        ("from . import x", True, {"p.m", "p.m.x"}),
        ("from ..q import x", True, {"p.q", "p.q.x"}),
        ("def f():\n    import a\n", False, {"a"}),
        ("def", False, set()),
    ],
)
def test_imports_are_read_from_the_text(text: str, is_package: bool, modules: set[str]) -> None:
    assert set(imported_modules(text, "p.m", is_package=is_package)) == modules


def test_a_test_driver_finds_modules_beside_the_file(tmp_path: Path) -> None:
    write(tmp_path, doubled="def f(batch):\n    return batch\n")
    (tmp_path / "app.yaml").write_text(
        dedent("""\
            apiVersion: holdfast.dev/v1alpha1
            kind: StreamApp
            metadata: {name: x}
            spec:
              systems: [{name: local, log: {}}]
              streams:
              - {name: a, system: local, partitions: 1, schema: "n INT"}
              - {name: b, system: local, partitions: 1}
              steps:
              - {name: f, from: [a], apply: {function: "doubled:f"}}
              - {name: out, from: [f], to: b}
            """),
        encoding="utf-8",
    )
    # In a process of its own, elsewhere: neither its path nor its directory has the module.
    program = dedent(f"""\
        import sys
        from holdfast_runtime.testing import TestDriver
        with TestDriver({str(tmp_path / "app.yaml")!r}) as driver:
            driver.feed("a", [{{"n": 1}}])
            driver.run()
            assert driver.rows("b") == [{{"n": 1}}], driver.rows("b")
        """)
    subprocess.run([sys.executable, "-c", program], check=True, cwd="/")
