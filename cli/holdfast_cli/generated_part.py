"""Why: all files of the repository that are generated, and the check that they are up to date.

`python -m holdfast_cli.generated_part` writes them; with `--check` it only says which are stale. Runs in a
checkout, not in an installation.
"""

import sys
from pathlib import Path

from holdfast.planning.picture.formats import draw
from holdfast.planning.plan import plan
from holdfast_cli.chart_reference import CHART, values_page
from holdfast_cli.generated import reasons_page, spec_page
from holdfast_cli.plan.app_file_part import load_app
from holdfast_cli.plan.crd_command import text as crd_text

_PICTURED = ("ad-clicks",)


def generated() -> dict[str, str]:
    """Path -> content."""
    files = {
        "crds/streamapps.holdfast.dev.yaml": crd_text(),
        f"{CHART}/files/streamapps.holdfast.dev.yaml": crd_text(),
        "docs/reference/spec.md": spec_page(),
        "docs/reference/reasons.md": reasons_page(),
        "docs/reference/values.md": values_page(),
    }
    for name in _PICTURED:
        app = load_app(f"examples/{name}/app.yaml").app
        if app is not None:
            files[f"docs/images/{name}.svg"] = draw("svg", plan(app), app)
    return files


def main(arguments: list[str]) -> int:
    """Write the files, or say which differ."""
    stale = 0
    for name, content in generated().items():
        path = Path(name)
        if path.exists() and path.read_text(encoding="utf-8") == content:
            continue
        stale += 1
        if "--check" in arguments:
            sys.stderr.write(f"{name} is not up to date; run make generate\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content, encoding="utf-8")
            sys.stdout.write(f"wrote {name}\n")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
