"""Container images of Holdfast; README.md of docs is docs/images.md."""
