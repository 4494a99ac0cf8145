"""``verispec models``: what can be pulled and what is here."""

from __future__ import annotations

import typer

from verispec.cli.output import JsonOption, print_json, print_table, size_text


def command(as_json: JsonOption = False) -> None:
    """List the models of the catalogue and of the store."""
    models = list_models()
    if as_json:
        print_json({"models": models})
        return
    print_table(
        ("NAME", "SIZE", "HERE", "LICENCE", "WHAT"),
        [
            (
                str(model["name"]),
                size_text(int(str(model["size"]))),
                "yes" if model["here"] else "no",
                str(model["licence"]),
                str(model["title"]),
            )
            for model in models
        ],
    )
    if not all(model["here"] for model in models):
        typer.echo("`verispec pull NAME` fetches one. Any GGUF file works too, by its path.")


def list_models() -> list[dict[str, object]]:
    """Catalogue entries first, then names that only the store knows."""
    from verispec.artifacts.catalog import CATALOG
    from verispec.artifacts.store import Store

    store = Store()
    titles = {name: entry.title for name, entry in CATALOG.items()}
    entries = [
        (entry.name, entry.sha256, entry.size, entry.licence, entry.origin) for entry in CATALOG.values()
    ]
    entries += [
        (named.name, named.sha256, named.size, named.licence, named.origin)
        for named in store.all_named()
        if named.name not in CATALOG
    ]
    return [
        {
            "name": name,
            "title": titles.get(name, origin),
            "here": store.has(digest, size),
            "size": size,
            "sha256": digest,
            "licence": licence,
            "origin": origin,
            "path": str(store.blob_path(digest)) if store.has(digest, size) else None,
        }
        for name, digest, size, licence, origin in entries
    ]
