"""The pure core of Holdfast: decisions as functions over frozen values, with no I/O anywhere below this name."""
