"""From text to token ids and back: tokeniser, streaming detokeniser, stop strings, chat templates."""
