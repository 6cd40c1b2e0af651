"""The pure core: decisions as functions over frozen values. Only `placement/file_store.py` touches files."""
