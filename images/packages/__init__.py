"""What builds of images do with Python packages."""
