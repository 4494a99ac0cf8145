"""A recipe gives every role a type; what it cannot give is said, and what is malformed is refused by name."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import numpy as np
import pytest

from gguf_bytes import BOOL, INT32, STRING, UINT32, UINT64, GgufBytes, array, entry, tensor
from tiny_models import TinyModel, write_model
from tiny_published import Published, write_published
from verispec.artifacts.derived_file import Derived
from verispec.artifacts.gguf import GgufFile
from verispec.artifacts.model_file import open_model_file
from verispec.artifacts.quantise import fitting_type, quantise
from verispec.artifacts.recipe import is_sensitive, load_recipe, parse_recipe, shipped_recipes
from verispec.artifacts.tensor_roles import ROLES
from verispec.artifacts.tensor_types import TensorType
from verispec.errors import ArtifactError, OptionError


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("hybrid")
    write_published(folder, Published("qwen3_5_text", prediction=1), "BF16")
    return folder


def quantised(source: Path, output: Path, recipe: str, **options: bool) -> Derived:
    with open_model_file(source) as parent:
        return quantise(parent, output, load_recipe(recipe), **options)


def types(path: Path) -> dict[str, str]:
    with GgufFile.open(path) as file:
        return {name: tensor.type.name for name, tensor in file.tensors.items()}


def test_shipped_recipes_name_every_role() -> None:
    assert set(shipped_recipes()) == {"q8", "q6_k", "q4_k_m", "tbq4"}
    for name in shipped_recipes():
        recipe = load_recipe(name)
        assert recipe.name == name
        assert set(recipe.types) == set(ROLES)


def test_tbq4_is_what_it_is_called(published: Path, tmp_path: Path) -> None:
    quantised(published, tmp_path / "out.gguf", "tbq4")
    found = types(tmp_path / "out.gguf")
    assert {
        found[f"blk.{layer}.ffn_{part}.weight"] for layer in range(4) for part in ("gate", "up", "down")
    } == {"Q4_0"}
    block = {name: kind for name, kind in found.items() if name.startswith("blk.4.") and "norm" not in name}
    assert block.pop("blk.4.nextn.shared_head_head.weight") == "Q4_K"
    assert set(block.values()) == {"Q6_K"}
    assert (
        found["token_embd.weight"] == found["blk.3.attn_q.weight"] == found["blk.0.attn_qkv.weight"] == "Q6_K"
    )
    assert found["blk.0.ssm_alpha.weight"] == "Q8_0"


def test_a_separate_draft_head_is_the_output_matrix(published: Path, tmp_path: Path) -> None:
    quantised(published, tmp_path / "out.gguf", "tbq4")
    with open_model_file(published) as parent, GgufFile.open(tmp_path / "out.gguf") as file:
        from verispec.artifacts.encoding import decode

        head = decode(file.data("blk.4.nextn.shared_head_head.weight"), TensorType.Q4_K)
        embedding = decode(parent.data("token_embd.weight"), TensorType.BF16)
        assert np.linalg.norm(head - embedding) < 0.08 * np.linalg.norm(embedding)


def test_small_and_sensitive_tensors_stay(published: Path, tmp_path: Path) -> None:
    quantised(published, tmp_path / "out.gguf", "q4_k_m")
    found = types(tmp_path / "out.gguf")
    kept = [name for name in found if "norm" in name or name.endswith(("conv1d.weight", "ssm_a", "dt.bias"))]
    assert len(kept) > 20
    assert {found[name] for name in kept} == {"F32"}
    with open_model_file(published) as parent, GgufFile.open(tmp_path / "out.gguf") as file:
        assert all(np.array_equal(parent.data(name), file.data(name)) for name in kept)


def test_the_q4_k_m_mixture_is_llama_cpps() -> None:
    assert [layer for layer in range(32) if is_sensitive(layer, 32)] == [
        *range(4), 6, 9, 12, 15, 18, 21, 24, 27, *range(28, 32)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("wanted", "columns", "given"),
    [
        ("Q4_K", 512, "Q4_K"),
        ("Q4_K", 576, "Q5_0"),
        ("Q5_K", 576, "Q5_1"),
        ("Q6_K", 576, "Q8_0"),
        ("Q6_K", 40, "F16"),
        ("Q8_0", 40, "F16"),
        ("Q4_0", 64, "Q4_0"),
    ],
)
def test_rows_that_are_not_whole_blocks(wanted: str, columns: int, given: str) -> None:
    assert fitting_type(TensorType[wanted], columns).name == given


def test_what_takes_a_types_place_is_reported(tmp_path: Path) -> None:
    write_model(tmp_path / "in.gguf", TinyModel("llama", hidden=96, heads=2, head_dim=48))
    derived = quantised(tmp_path / "in.gguf", tmp_path / "out.gguf", "q6_k")
    found = types(tmp_path / "out.gguf")
    substituted = {one["tensor"]: (one["wanted"], one["given"]) for one in derived.substituted}
    assert substituted["blk.0.ffn_gate.weight"] == ("Q6_K", "Q8_0")
    assert "blk.0.ffn_down.weight" not in substituted
    assert all(found[name] == given for name, (_, given) in substituted.items())
    assert json.loads((tmp_path / "out.gguf.manifest.json").read_text())["substituted"] == derived.substituted


def test_a_quantised_parent_has_to_be_allowed(tmp_path: Path) -> None:
    write_model(tmp_path / "in.gguf", TinyModel("llama", "Q8_0"))
    with pytest.raises(ArtifactError, match="--allow-requantize"):
        quantised(tmp_path / "in.gguf", tmp_path / "out.gguf", "q6_k")
    assert not (tmp_path / "out.gguf").exists()
    quantised(tmp_path / "in.gguf", tmp_path / "out.gguf", "q6_k", allow_requantize=True)
    assert types(tmp_path / "out.gguf")["blk.0.attn_q.weight"] == "Q6_K"


def test_a_tensor_that_has_its_type_is_copied(tmp_path: Path) -> None:
    write_model(tmp_path / "in.gguf", TinyModel("llama", "Q8_0"))
    quantised(tmp_path / "in.gguf", tmp_path / "out.gguf", "q8")
    with GgufFile.open(tmp_path / "in.gguf") as parent, GgufFile.open(tmp_path / "out.gguf") as file:
        assert all(np.array_equal(parent.data(name), file.data(name)) for name in parent.tensors)


def test_the_same_input_gives_the_same_file(published: Path, tmp_path: Path) -> None:
    for name in ("one.gguf", "two.gguf"):
        quantised(published, tmp_path / name, "q4_k_m")
    assert (tmp_path / "one.gguf").read_bytes() == (tmp_path / "two.gguf").read_bytes()


def test_the_artifact_names_parent_and_recipe(published: Path, tmp_path: Path) -> None:
    derived = quantised(published, tmp_path / "out.gguf", "q6_k")
    recipe = load_recipe("q6_k")
    with open_model_file(published) as parent, GgufFile.open(tmp_path / "out.gguf") as file:
        assert file.metadata["verispec.derived_from"] == parent.sha256()
        assert file.metadata["verispec.derived_recipe"] == "q6_k"
        assert file.metadata["verispec.derived_recipe_sha256"] == recipe.sha256
        assert derived.manifest["artifact"]["sha256"] == file.sha256()
    assert derived.manifest["parent"]["sha256"] == derived.manifest["parent"]["sha256"]
    assert derived.manifest["recipe"]["content"] == tomllib.loads(shipped_recipes()["q6_k"])
    stored = sum(size["nbytes"] for size in derived.manifest["roles"].values())
    assert stored <= derived.manifest["artifact"]["size"]


def test_values_beyond_a_type_are_refused(tmp_path: Path) -> None:
    made = Published("qwen2")
    write_published(tmp_path / "published", made)
    from tiny_published import weights, write_tensors

    tensors = weights(made)
    tensors["model.layers.2.mlp.up_proj.weight"][0, 0] = np.inf
    write_tensors(tmp_path / "published", tensors)
    with pytest.raises(ArtifactError, match=r"blk\.2\.ffn_up\.weight: expected finite values"):
        quantised(tmp_path / "published", tmp_path / "out.gguf", "q8")
    assert not (tmp_path / "out.gguf").exists()


ALL = "\n".join(f'{role} = "Q8_0"' for role in ROLES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("name = ", "expected TOML"),
        ("[types]\nattention = 'Q8_0'", "name: expected text, found None"),
        ("name = 'x'", "types: expected a table"),
        (
            "name = 'x'\n[types]\nattentoin = 'Q8_0'",
            "output, found 'attentoin'; did you mean attention?",
        ),
        ("name = 'x'\n[types]\nattention = 'q4_k'", "found 'q4_k'; did you mean Q4_K?"),
        ("name = 'x'\n[typs]\nattention = 'Q8_0'", "found 'typs'; did you mean types?"),
        ("name = 'x'\n[types]\nattention = 'Q3_K'", "types.attention: expected a type among Q8_0"),
        ("name = 'x'\ncolour = 1\n[types]\nattention = 'Q8_0'", "found 'colour'"),
        ("name = 'x'\n[types]\nattention = 8", "types.attention: expected a type"),
        ("name = 'x'\nseparate_draft_head = 1\n[types]\nattention = 'Q8_0'", "expected true or false"),
        ("name = 'x'\nseparate_draft_head = true\n[types]\nattention = 'Q8_0'", "expected draft_head"),
        (
            f"name = 'x'\n[types]\n{ALL}\n[parts]\nattn_v = {{ type = 'Q6_K', layers = 'few' }}",
            "parts.attn_v: expected",
        ),
        (
            f"name = 'x'\n[types]\n{ALL}\n[parts]\nssm_alfa = 'Q8_0'",
            "parts: expected the name of a tensor in its layer, found 'ssm_alfa'; did you mean ssm_alpha?",
        ),
        (
            f"name = 'x'\n[types]\n{ALL}\n[parts]\nattn_v = {{ layers = 'all' }}",
            "parts.attn_v: expected a type",
        ),
    ],
)
def test_malformed_recipes(text: str, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        parse_recipe(text, "mine.toml")
    assert message in str(caught.value)
    assert "mine.toml" in str(caught.value)


def test_a_role_that_the_recipe_forgot(published: Path, tmp_path: Path) -> None:
    recipe = tmp_path / "mine.toml"
    recipe.write_text("name = 'mine'\n[types]\nattention = 'Q8_0'\noutput = 'Q8_0'")
    with pytest.raises(OptionError, match="expected one for role"):
        quantised(published, tmp_path / "out.gguf", str(recipe))


def test_an_unknown_recipe_lists_the_known_ones() -> None:
    with pytest.raises(
        OptionError, match="expected one of q4_k_m, q6_k, q8, tbq4 or a TOML file, found 'q5'"
    ):
        load_recipe("q5")


def test_a_misspelt_recipe_is_guessed() -> None:
    with pytest.raises(OptionError, match="found 'Q4KM'; did you mean q4_k_m"):
        load_recipe("Q4KM")


def test_a_recipes_digest_is_its_content() -> None:
    text = f"name = 'x'\n[types]\n{ALL}"
    assert parse_recipe(text, "a").sha256 == parse_recipe(f"# the same\n\n{text}\n", "b").sha256
    assert parse_recipe(text, "a").sha256 != parse_recipe(text.replace("Q8_0", "Q6_K", 1), "a").sha256


def test_the_input_is_never_the_output(tmp_path: Path) -> None:
    write_model(tmp_path / "in.gguf", TinyModel("llama"))
    before = (tmp_path / "in.gguf").read_bytes()
    with pytest.raises(OptionError, match="output: expected another file"):
        quantised(tmp_path / "in.gguf", tmp_path / "in.gguf", "q8")
    assert (tmp_path / "in.gguf").read_bytes() == before


def test_metadata_is_stored_as_it_was(tmp_path: Path) -> None:
    entries = [
        entry("general.architecture", STRING, "llama"),
        entry("llama.block_count", UINT64, 1),
        entry("general.alignment", UINT32, 64),
        entry("mine.signed", INT32, -5),
        entry("mine.flag", BOOL, 1),
        entry("mine.double", 12, 0.1),
        array("mine.bytes", 0, [1, 2, 255]),
        array("mine.words", STRING, ["a", "ü"]),
    ]
    data = np.arange(64, dtype=np.float32)
    tensors = [tensor("token_embd.weight", (32, 1), 0, 0), tensor("output_norm.weight", (8,), 0, 128)]
    (tmp_path / "in.gguf").write_bytes(GgufBytes(entries, tensors, data.tobytes(), alignment=64).build())
    quantised(tmp_path / "in.gguf", tmp_path / "out.gguf", "q8")
    with GgufFile.open(tmp_path / "in.gguf") as parent, GgufFile.open(tmp_path / "out.gguf") as file:
        for key, value in parent.metadata.items():
            assert file.metadata[key] == value
            assert file.metadata_types[key] == parent.metadata_types[key], key
        assert all(one.offset % 64 == 0 for one in file.tensors.values())
        assert file.tensors["token_embd.weight"].type is TensorType.Q8_0
        assert np.array_equal(file.data("output_norm.weight"), parent.data("output_norm.weight"))
