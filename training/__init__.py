"""Training of the small hybrid model that the tests and measurements run on; see training/README.md.

Nothing here is part of the installed package. It needs torch and transformers.
"""
