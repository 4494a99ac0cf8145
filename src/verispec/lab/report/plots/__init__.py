"""Plots as SVG inside the page: drawn by a few small functions, coloured by the page's style, titled for readers."""
