"""Benchmarks: what a pass costs, what speculation brings on a suite of prompts, and how other engines do beside it.

Talks to the engine through its public API and to other engines through subprocesses and HTTP.
"""
