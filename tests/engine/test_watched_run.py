"""`holdfast run --watch`: what is saved is what runs next, from the state of the run before."""

from pathlib import Path

from tests.engine.runs import APP, Run, check, feed

_NUMBERS = """
def number(name, rows, state):
    for row in rows:
        state["n"] = state.get("n", 0) + 1
        before, state["stamp"] = state.get("stamp", ""), row["stamp"]
        yield {"id": row["id"], "k": name, "nth": state["n"], "stamp": row["stamp"], "before": before}
"""


def test_a_saved_function_is_what_runs_next(tmp_path: Path) -> None:
    app, data, module = tmp_path / "app.yaml", tmp_path / "data", tmp_path / "tallies.py"
    app.write_text(APP.replace("f:number", "tallies:number"))
    module.write_text(_NUMBERS.replace('state["n"] = ', 'state["n"] = 7 + '))
    with Run(app, data, "--watch", "--until-idle") as run:
        run.until("ended")
        module.write_text("def number(name, rows, state):\n    return no_such_thing\n")
        run.until("ended")
        feed(data, 30)
        module.touch()
        assert "no_such_thing" in run.until("failed")["message"]
        module.write_text(_NUMBERS)
        assert run.until("ended")["rowsIn"] > 0
        feed(data, 30, 30)
        module.write_text(_NUMBERS + "\n")
        run.until("ended")
    check(data, 60)
