"""The pure core: decisions as functions over frozen values. The one door to a disk is `placement/file_store.py`."""
