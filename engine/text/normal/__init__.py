"""The rules that turn what is written into words; `engine.text.normalise` puts them in order. Core."""
