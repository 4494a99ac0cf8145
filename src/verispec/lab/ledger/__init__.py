"""The lab's memory: append-only evidence by content, a journal that orders it, an index that can be made again."""
