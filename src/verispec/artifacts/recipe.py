"""A quantisation recipe: which tensor type each role gets, written as TOML.

```toml
name = "tbq4"
description = "..."
separate_draft_head = true       # make a draft head from the output matrix where there is none

[types]                          # a type for every role that the model has
attention = "Q6_K"
feed_forward = "Q4_0"

[parts]                          # exceptions, by the tensor's name within its layer
ssm_alpha = "Q8_0"
ffn_down = { type = "Q6_K", layers = "sensitive" }
```
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import resources
from pathlib import Path
from typing import Any, Literal

import gguf

from verispec.artifacts.tensor_roles import ROLES, Layout, Role, block_of
from verispec.artifacts.tensor_types import TensorType
from verispec.errors import OptionError

Layers = Literal["all", "sensitive"]
LAYERS: tuple[Layers, ...] = ("all", "sensitive")
RECIPE_TYPES = (
    TensorType.Q8_0,
    TensorType.Q4_0,
    TensorType.Q4_1,
    TensorType.Q4_K,
    TensorType.Q5_K,
    TensorType.Q6_K,
    TensorType.F16,
    TensorType.BF16,
)
FIELDS = ("name", "description", "separate_draft_head", "types", "parts")


@dataclass(frozen=True)
class PartType:
    """The type of one kind of tensor, in all layers or in those that suffer most from few bits."""

    type: TensorType
    layers: Layers = "all"

    def holds(self, layer: int, trunk_layers: int) -> bool:
        chosen = self.layers == "all" or is_sensitive(layer, trunk_layers)
        return layer < trunk_layers and chosen


@dataclass(frozen=True)
class Recipe:
    """A checked recipe. ``content`` is what was read, ``sha256`` the digest of that, whatever its layout."""

    name: str
    description: str
    types: dict[Role, TensorType]
    parts: dict[str, PartType]
    separate_draft_head: bool
    content: dict[str, Any]

    @property
    def sha256(self) -> str:
        canonical = json.dumps(self.content, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
        return hashlib.sha256(canonical.encode()).hexdigest()

    def type_of(self, name: str, layout: Layout) -> TensorType:
        """The type for a matrix of a model.

        Exceptions hold for the trunk alone: prediction blocks have a role of their own. Raises OptionError for a role
        that the recipe has no type for.
        """
        role = layout.role(name)
        layer, part = block_of(name)
        exception = self.parts.get(part.removesuffix(".weight"))
        if exception is not None and layer is not None and exception.holds(layer, layout.trunk_layers):
            return exception.type
        if role not in self.types:
            raise OptionError(
                f"recipe {self.name}: types: expected one for role {role} (tensor {name}), found none"
            )
        return self.types[role]


def is_sensitive(layer: int, layers: int) -> bool:
    """llama.cpp's choice for its Q4_K_M mixture: the first and last eighth, and every third layer between."""
    eighth = layers // 8
    return layer < eighth or layer >= 7 * layers // 8 or (layer - eighth) % 3 == 2


def shipped_recipes() -> dict[str, str]:
    """The TOML of every recipe that comes with verispec, by name."""
    folder = resources.files("verispec.artifacts").joinpath("recipes")
    files = [file for file in folder.iterdir() if file.name.endswith(".toml")]
    return {file.name.removesuffix(".toml"): file.read_text("utf-8") for file in sorted(files, key=str)}


def load_recipe(name_or_file: str) -> Recipe:
    """A shipped recipe by its name, or one in a file. Raises OptionError naming what is wrong."""
    shipped = shipped_recipes()
    if name_or_file in shipped:
        return parse_recipe(shipped[name_or_file], name_or_file)
    path = Path(name_or_file)
    if not path.is_file():
        known = ", ".join(shipped)
        hint = did_you_mean(name_or_file, shipped)
        raise OptionError(f"recipe: expected one of {known} or a TOML file, found {name_or_file!r}{hint}")
    try:
        return parse_recipe(path.read_text("utf-8"), name_or_file)
    except UnicodeDecodeError as error:
        raise OptionError(f"recipe {name_or_file}: expected UTF-8 text, found {error}") from error


def parse_recipe(text: str, source: str) -> Recipe:
    """Reads and checks a recipe; ``source`` is named in errors."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise OptionError(f"recipe {source}: expected TOML, found {error}") from error
    for key in content:
        if key not in FIELDS:
            expected = f"expected keys among {', '.join(FIELDS)}"
            raise OptionError(f"recipe {source}: {expected}, found {key!r}{did_you_mean(key, FIELDS)}")
    name, separate = content.get("name"), content.get("separate_draft_head", False)
    if not isinstance(name, str) or not name:
        raise OptionError(f"recipe {source}: name: expected text, found {name!r}")
    if not isinstance(separate, bool):
        raise OptionError(f"recipe {source}: separate_draft_head: expected true or false, found {separate!r}")
    types = _table(content, "types", source)
    for role in types:
        if role not in ROLES:
            expected = f"expected roles among {', '.join(ROLES)}"
            raise OptionError(
                f"recipe {source}: types: {expected}, found {role!r}{did_you_mean(role, ROLES)}"
            )
    if separate and "draft_head" not in types:
        raise OptionError(f"recipe {source}: types: expected draft_head, since separate_draft_head is true")
    parts = _table(content, "parts", source)
    for part in parts:
        _check_part_name(part, f"recipe {source}: parts")
    return Recipe(
        name=name,
        description=str(content.get("description", "")),
        types={role: _type(value, f"recipe {source}: types.{role}") for role, value in types.items()},
        parts={part: _part(value, f"recipe {source}: parts.{part}") for part, value in parts.items()},
        separate_draft_head=separate,
        content=content,
    )


def _check_part_name(part: str, where: str) -> None:
    """Raises OptionError for a name that no layer of any family has: the exception would silently not be made."""
    in_layers = "blk.{bid}."
    known = [
        name.removeprefix(in_layers) for name in gguf.TENSOR_NAMES.values() if name.startswith(in_layers)
    ]
    if part not in known:
        hint = did_you_mean(part, known)
        raise OptionError(f"{where}: expected the name of a tensor in its layer, found {part!r}{hint}")


def did_you_mean(found: str, known: Iterable[str]) -> str:
    """The known word that looks most like ``found``, whatever its case, as the end of an error; empty without one."""
    words = {word.lower(): word for word in known}
    near = get_close_matches(found.lower(), words, n=1)
    return f"; did you mean {words[near[0]]}?" if near else ""


def _table(content: dict[str, Any], key: str, source: str) -> dict[Any, Any]:
    value = content.get(key, {})
    if not isinstance(value, dict) or (key == "types" and not value):
        raise OptionError(f"recipe {source}: {key}: expected a table, found {value!r}")
    return value


def _type(value: object, where: str) -> TensorType:
    names = [kind.name for kind in RECIPE_TYPES]
    if not isinstance(value, str) or value not in names:
        hint = did_you_mean(value, names) if isinstance(value, str) else ""
        raise OptionError(f"{where}: expected a type among {', '.join(names)}, found {value!r}{hint}")
    return TensorType[value]


def _part(value: object, where: str) -> PartType:
    if not isinstance(value, dict):
        return PartType(_type(value, where))
    layers = value.get("layers", "all")
    if layers not in LAYERS or set(value) - {"type", "layers"}:
        raise OptionError(f"{where}: expected type, and layers among {', '.join(LAYERS)}, found {value!r}")
    return PartType(_type(value.get("type"), where), layers)
