"""What is known of an app and its pods: what watches told, kept; what is asked; the snapshot of one look."""
