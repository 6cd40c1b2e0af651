"""Apps written in Python: typed calls that declare streams, tables and steps, and render the YAML that runs.

    app = App("orders")
    orders = app.log("local").stream("orders", key="shop", schema="shop STRING, cents INT")
    orders.filter("cents > 0", name="sold").to("sales")

What calls declare is judged as a file is, with the lines of the calls. Must not add anything to the language: whatever
can be said here can be said in YAML, and the other way round.
"""

from holdfast.spec.pods import DataKey, PodField, Resources, Toleration, Variable, VariableSource
from holdfast.spec.runtime import (
    Alerts,
    Backoff,
    Changelog,
    Checkpoint,
    Driver,
    Executors,
    Expansion,
    LineageEndpoint,
    LocalState,
    Planning,
    Restart,
    Runtime,
    Trigger,
)
from holdfast.spec.streams import CsvRecords, EventTime, KafkaRegistry, MessageSchema, RecordSchema, TableFiles
from holdfast_api.app import App
from holdfast_api.declared import DeclaredStep, DeclaredStream, DeclaredSystem, DeclaredTable, RowSource
from holdfast_api.draft import AppDraftError
from holdfast_api.packed_functions import FunctionUnpackableError
from holdfast_api.plan_view import PlanView
from holdfast_api.trial import TriedRows

__all__ = [
    "Alerts",
    "App",
    "AppDraftError",
    "Backoff",
    "Changelog",
    "Checkpoint",
    "CsvRecords",
    "DataKey",
    "DeclaredStep",
    "DeclaredStream",
    "DeclaredSystem",
    "DeclaredTable",
    "Driver",
    "EventTime",
    "Executors",
    "Expansion",
    "FunctionUnpackableError",
    "KafkaRegistry",
    "LineageEndpoint",
    "LocalState",
    "MessageSchema",
    "PlanView",
    "Planning",
    "PodField",
    "RecordSchema",
    "Resources",
    "Restart",
    "RowSource",
    "Runtime",
    "TableFiles",
    "Toleration",
    "TriedRows",
    "Trigger",
    "Variable",
    "VariableSource",
]
