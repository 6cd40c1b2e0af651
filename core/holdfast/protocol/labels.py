"""The labels and the finalizer by which operator, driver and CLI find the objects of an app.

Each is written by one of the three and looked for by another, so it is defined here and nowhere else; what Spark
itself writes (`spark-role`) is named here because Holdfast selects by it. Must not hold names of objects (`names`)
or keys inside ConfigMaps (`attempt`, `assignment`, `report`).
"""

APP_LABEL = "holdfast.dev/app"
"""Of everything that belongs to an app; its value is the app's name."""

APP_ID_LABEL = "holdfast.dev/app-id"
"""Of all pods of a run; its value is what Spark calls the app."""

ATTEMPT_LABEL = "holdfast.dev/attempt"
"""Of the pods of an attempt; its value is the attempt's number."""

ROLE_LABEL = "spark-role"
"""Of Spark's pods: driver or executor."""

ASSIGNMENT_LABEL = "holdfast.dev/assignment"
"""Of the ConfigMap in which assignments are handed to a driver; its value is the app's name."""

SPARK_APP_LABEL = "spark-app-selector"
"""Of executors and their claims, from Spark; its value is what Spark calls the app."""

REPORT_LABEL = "holdfast.dev/report"
"""Of the ConfigMap in which a driver reports; its value is the app's name."""

STORE_LABEL = "holdfast.dev/store"
"""Of the ConfigMaps of a metadata store; its value is the app's name."""

FINALIZER = "holdfast.dev/release"
"""What keeps an app until its driver is gone."""
