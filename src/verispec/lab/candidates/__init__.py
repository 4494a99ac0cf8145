"""Candidates: what is tried against a control. A configuration, an artifact, or a patch built in a clean copy."""
