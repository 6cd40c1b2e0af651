"""The entry point of `python -m holdfast_operator`. Must only start the operator."""

from holdfast_operator.main import main

if __name__ == "__main__":
    main()
