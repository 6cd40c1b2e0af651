"""Why: `python -m holdfast_operator` starts the operator. Must only start it."""

from holdfast_operator.main import main

if __name__ == "__main__":
    main()
