"""Builds the images with the machine's Docker, and not again where nothing has changed."""
