"""What a training needs beyond the package itself."""

from __future__ import annotations

from verispec.errors import UnsupportedError


def check_requirements() -> None:
    """Raises UnsupportedError without torch, or with one too old for what is used of it."""
    try:
        from torch.optim import Muon  # noqa: F401 - the newest part that is used
    except ImportError as error:
        raise UnsupportedError(
            "needs-torch",
            f"training needs torch 2.9 or newer ({error})",
            "Install it with: pip install 'verispec[train]'",
        ) from error
