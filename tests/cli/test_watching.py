"""What is looked at again and again, until Ctrl-C: as lines where something changed, or drawn on a terminal."""

import io

import pytest
from rich.console import Console

from holdfast.errors import RetrySoonError, UserActionError
from holdfast_cli.output.live import ChangesView, LiveView, watch


def test_only_changes_are_shown_and_a_lost_cluster_ends_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    away = RetrySoonError("the API server is away")
    answers: list[int | Exception] = [1, 1, away, away, 2, away, 2, UserActionError("the app is gone")]

    def look() -> int:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    drawn: list[int | None] = []
    with pytest.raises(UserActionError, match="gone"):
        list(watch(look, ChangesView(drawn.append), lambda: None))
    assert drawn == [1, 2]
    assert capsys.readouterr().err == "holdfast: the API server is away\n" * 2


def test_a_terminal_shows_each_look_and_what_delays_the_next() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=60, height=20)

    def draw(paper: Console, number: int) -> None:
        paper.print(f"seen {number} " + "and so on " * 8)

    with LiveView(console, draw) as view:
        view.show(1, None)
        view.show(2, "the API server is away")
    text = file.getvalue()
    assert text.index("seen 1") < text.index("the API server is away") < text.index("seen 2")
    assert text.count("so on") > 8, "what is too long for a line goes on in the next"
