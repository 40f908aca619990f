"""Numbers that somebody else can get again: `python -m bench NAME`."""
