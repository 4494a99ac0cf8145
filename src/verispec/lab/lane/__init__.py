"""One lane: a fresh server, checked, asked the whole suite once, stopped, and written down whatever happened."""
