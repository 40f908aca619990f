"""One file per scenario; each has a docstring that says what it measures, and `run`."""
