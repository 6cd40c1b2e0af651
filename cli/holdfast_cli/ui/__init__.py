"""`holdfast ui`: a page in the browser that shows the apps of a cluster."""
