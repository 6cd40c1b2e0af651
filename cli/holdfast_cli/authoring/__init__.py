"""What helps to write an app: a first one to begin with, completion in a shell."""
