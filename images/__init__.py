"""Container images of Holdfast; docs/install.md says what is in them."""
