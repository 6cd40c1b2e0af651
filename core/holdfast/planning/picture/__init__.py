"""The plan as a picture: a neutral graph (`model`), its geometry (`layout`), and SVG, Mermaid and Graphviz text."""
