"""An app as Python calls declare it: what it is made of, its YAML, its plan, and rows tried on it.

    calls -> draft (a tree, as a file has it) -> parse_app -> StreamApp -> plan, YAML, TestDriver

Must not hold what a declaration means: that is for the spec.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Unpack

from holdfast.spec.app import AppSpec, StreamApp
from holdfast.spec.parse import parse_app
from holdfast.spec.streams import GeneratorSystem, KafkaSystem, Table
from holdfast_api.declared import DeclaredSystem, DeclaredTable
from holdfast_api.draft import AppDraft, SourceLine
from holdfast_api.options import AppOptions, GeneratorOptions, KafkaOptions, TableOptions
from holdfast_api.plan_view import PlanView
from holdfast_api.trial import TriedRows, tried_rows
from holdfast_api.yaml_layout import as_yaml


class App:
    """A stateful Spark streaming application."""

    def __init__(self, name: str, **options: Unpack[AppOptions]) -> None:
        """Begin an app of this name."""
        self.draft = AppDraft(name, SourceLine.of_call().file)
        self.draft.settings = self.draft.written_fields(AppSpec, options)

    def __repr__(self) -> str:
        counts = (f"{len(items)} {kind}" for kind, items in self.draft.lists.items())
        return f"<App {self.name}: {', '.join(counts) or 'nothing yet'}>"

    @property
    def name(self) -> str:
        """The app's name."""
        return self.draft.name

    def kafka(self, name: str, bootstrap_servers: str, **options: Unpack[KafkaOptions]) -> DeclaredSystem:
        """Declare an Apache Kafka cluster."""
        fields = self.draft.written_fields(KafkaSystem, options)
        return self._system(name, "kafka", {"bootstrapServers": bootstrap_servers, **fields})

    def log(self, name: str) -> DeclaredSystem:
        """Declare the embedded log: streams in files of one host. For laptops and tests."""
        return self._system(name, "log", {})

    def generator(
        self, name: str, function: Callable[..., Any] | str, **options: Unpack[GeneratorOptions]
    ) -> DeclaredSystem:
        """Declare made-up records, which a function makes."""
        fields = self.draft.written_fields(GeneratorSystem, options)
        return self._system(name, "generator", {"function": self.draft.path_of(function), **fields})

    def table(self, name: str, **options: Unpack[TableOptions]) -> DeclaredTable:
        """Declare an adjunct store for look-ups."""
        self.draft.add("tables", {"name": name, **self.draft.written_fields(Table, options)})
        return DeclaredTable(name, self.draft)

    def _system(self, name: str, kind: str, settings: Mapping[str, object]) -> DeclaredSystem:
        self.draft.add("systems", {"name": name, kind: dict(settings)})
        return DeclaredSystem(name, self.draft)

    def tree(self) -> dict[str, Any]:
        """Return the app as a file would have it, whether it is valid or not."""
        return self.draft.tree()

    def to_yaml(self) -> str:
        """Return the StreamApp as YAML: what `holdfast` and `kubectl apply` take. It must be valid."""
        self.spec()
        return as_yaml(self.tree())

    def spec(self) -> StreamApp:
        """Return the StreamApp; raise `SpecInvalidError` with all that is wrong with it."""
        return parse_app(self.tree())

    def plan(self, partitions: Mapping[str, int] | None = None) -> PlanView:
        """Plan the app, as `holdfast plan` does. `partitions`: counts of streams, e.g. of topics."""
        return PlanView.of(self.draft, partitions or {})

    def try_rows(
        self,
        rows: Mapping[str, Any],
        *,
        end: bool = True,
        now: datetime | None = None,
        spark: Any = None,
    ) -> TriedRows:
        """Run the app on these rows in this process and return the rows of each step.

        `rows`: stream -> a pandas DataFrame or a list of dicts. `end`: inputs end behind them, so that windows and
        joins put out what they hold. `now`: the clock (default: now). `spark`: a SparkSession, where Spark SQL computes
        something.
        """
        return tried_rows(self.draft, rows, end=end, now=now, spark=spark)
