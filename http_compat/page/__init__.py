"""The browser page: static files, and what serves them."""
