"""One file per scenario: a docstring that says what it measures, and `run(Options) -> Report`."""
