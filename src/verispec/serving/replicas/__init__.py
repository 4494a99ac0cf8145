"""One server in front of several engines: ``verispec serve --ray``.

A front process of ours has the address, the keys and the limits. Behind it each replica is a process with an engine and
a prefix cache of its own, started, watched and restarted by Ray Serve. Only ``cluster.py`` and ``ray_replica.py`` know
Ray. Ray Serve has a router of its own that could be replaced by ours; it is not used, because the front sees every
request anyway and so knows what each replica has to do without asking it, and because each replica must be reached by
its number for ``/health``, ``/metrics`` and receipts.
"""
