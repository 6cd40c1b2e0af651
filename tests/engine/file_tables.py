"""An app whose table lies in files, and files to put there, for tests of such tables."""

import json
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.engine.fed_tables import app

EVERY = timedelta(minutes=1)


def put(folder: Path, prices: Mapping[str, object], name: str = "prices.json") -> None:
    """Replace a file of the table as a whole, as the docs ask for, so that it also shows in its time."""
    folder.mkdir(exist_ok=True)
    file, draft = folder / name, folder / f".{name}"
    before = file.stat().st_mtime_ns if file.exists() else 0
    lines = [json.dumps({"sku": sku, "price": price}) for sku, price in prices.items()]
    draft.write_text("\n".join(lines) + "\n")
    later = max(before + 1_000_000, draft.stat().st_mtime_ns)
    os.utime(draft, ns=(later, later))
    draft.replace(file)


def filed(folder: Path, **table: Any) -> dict[str, Any]:
    """The app of fed tables, whose products lie in files."""
    made = app("Broadcast")
    spec = made["spec"]
    spec["streams"] = [one for one in spec["streams"] if one["name"] != "products"]
    spec["tables"] = [
        {
            "name": "product",
            "files": {"location": f"file://{folder}", "format": "json"},
            "key": ["sku"],
            "schema": "sku STRING, price BIGINT",
            "distribution": "Broadcast",
            "versioned": True,
        }
        | table
    ]
    return made
