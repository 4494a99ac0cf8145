"""From tokens to text as they come, never showing half a character."""

from __future__ import annotations

from codecs import utf_8_decode
from collections.abc import Collection

from verispec.text.tokenizer import Tokenizer


class Detokenizer:
    """The texts of ``push`` and ``flush`` put together equal ``Tokenizer.decode`` of all pushed ids.

    Control tokens add nothing unless ``skip_special`` is False; those of ``shown`` add their names in any
    case. ``at_text_start``: the first token begins a text, so the space that the encoder of some models puts
    there is dropped (off: the text goes on after a prompt).
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        *,
        skip_special: bool = True,
        at_text_start: bool = False,
        shown: Collection[int] = (),
    ) -> None:
        self._tokenizer = tokenizer
        self._pieces = tokenizer.pieces
        self._skip_special = skip_special
        self._shown = frozenset(shown)
        self._texts: dict[int, str] = {}  # what a token adds when no character is unfinished
        self._unfinished = b""
        self._drop_space = at_text_start and tokenizer.space_prefix

    def push(self, token: int) -> str:
        """The text that is certain now; nothing while a character is unfinished. OptionError for a bad id."""
        if not self._unfinished and not self._drop_space:
            text = self._texts.get(token)
            if text is not None:
                return text
        return self._decode(token)

    def _decode(self, token: int) -> str:
        if self._skip_special and token not in self._shown and self._tokenizer.is_control(token):
            self._texts[token] = ""
            return ""
        before = self._unfinished
        piece = self._pieces[token]
        data = before + piece
        if self._drop_space and data:
            self._drop_space = False
            data = data.removeprefix(b" ")
        text, used = utf_8_decode(data, "replace", False)
        self._unfinished = data[used:]
        if not before and used == len(piece):  # a whole token, whole characters: the same every time
            self._texts[token] = text
        return text

    def flush(self) -> str:
        """U+FFFD for a character that stays unfinished, else nothing. Pushing may go on afterwards."""
        text = self._unfinished.decode("utf-8", "replace")
        self._unfinished = b""
        return text

    def checkpoint(self) -> tuple[bytes, bool]:
        return self._unfinished, self._drop_space

    def restore(self, checkpoint: tuple[bytes, bool]) -> None:
        self._unfinished, self._drop_space = checkpoint
