"""`python -m tests.docs.update`: what of the pages is made from what the product does.

The output of every command that a page shows. Run it after a change of what `holdfast` prints, and read the difference.
Must not touch anything else.
"""

import sys
from pathlib import Path

from tests.docs.pages import ROOT, all_pages
from tests.docs.running import shown


def update(page: Path) -> bool:
    """Rewrite the console blocks of a page; whether there was anything to write."""
    before = page.read_text(encoding="utf-8")
    lines = before.splitlines()
    for block, text in reversed(shown(page).items()):
        inside = block.text.count("\n") + 1
        lines[block.line : block.line + inside] = text.splitlines()
    after = "\n".join(lines) + "\n"
    if not lines or after == before:
        return False
    page.write_text(after, encoding="utf-8")
    return True


def main() -> None:
    """Rewrite the pages."""
    for page in all_pages():
        if update(page):
            sys.stdout.write(f"rewritten: {page.relative_to(ROOT)}\n")


if __name__ == "__main__":
    main()
