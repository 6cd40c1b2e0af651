"""Ordered lists of small questions; the first that has an answer gives it. The lists are the specification."""
