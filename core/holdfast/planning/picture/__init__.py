"""The plan as a picture: SVG, Graphviz and Mermaid."""
