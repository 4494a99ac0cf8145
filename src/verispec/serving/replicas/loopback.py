"""Keeps what Ray Serve opens in a replica's process to this machine."""

from __future__ import annotations

from typing import Any


def keep_to_loopback() -> None:
    """Ray Serve has every replica listen on all addresses for other deployments, of which there are none here; it
    refuses whoever has not the cluster's token. In a cluster of one machine the loopback address does."""
    from ray.serve._private import replica

    open_port = replica.add_port_to_grpc_server

    def open_on_loopback(server: Any, address: str) -> Any:
        return open_port(server, address.replace("[::]", "127.0.0.1"))

    replica.add_port_to_grpc_server = open_on_loopback
