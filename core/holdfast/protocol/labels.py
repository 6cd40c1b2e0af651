"""The labels and the finalizer by which operator, driver and CLI find the objects of an app.

Each is written by one of the three and selected by another, so it is defined only here. Labels that Spark writes
(`spark-role`, `spark-app-selector`) are here because Holdfast selects by them. Must not hold names of objects
(`names`) or keys inside ConfigMaps (`attempt`, `assignment`, `report`).
"""

APP_LABEL = "holdfast.dev/app"
"""On everything that belongs to an app; the value is the app's name."""

APP_ID_LABEL = "holdfast.dev/app-id"
"""On all pods of a run; the value is `names.app_id`, Spark's id of the app."""

ATTEMPT_LABEL = "holdfast.dev/attempt"
"""On the pods of an attempt; the value is the attempt's number."""

ROLE_LABEL = "spark-role"
"""On Spark's pods, from Spark: driver or executor."""

ASSIGNMENT_LABEL = "holdfast.dev/assignment"
"""On the ConfigMap from which a driver reads assignments; the value is the app's name."""

SPARK_APP_LABEL = "spark-app-selector"
"""On executors and their claims, from Spark; the value is Spark's id of the app."""

REPORT_LABEL = "holdfast.dev/report"
"""On the ConfigMap to which a driver writes its report; the value is the app's name."""

STORE_LABEL = "holdfast.dev/store"
"""On the ConfigMaps of a metadata store; the value is the app's name."""

FINALIZER = "holdfast.dev/release"
"""Keeps a deleted app until its driver is gone."""
