"""Where the text comes from, and how it is cut."""

from typing import Self

from pydantic import model_validator

from kgscale.config.section import NonNegative, Positive, Section


class ChunkConfig(Section):
    """How documents are cut; input that is already cut (chunks with ids) is left as it is."""

    words: Positive = 300
    """Longest chunk in words; a character of a script without spaces, such as Chinese, counts as a word."""
    tokens: Positive | None = None
    """Longest chunk in tokens of `tokenizer`, in place of `words`."""
    overlap: NonNegative = 40
    """Words (or tokens) repeated from the end of the chunk before."""
    tokenizer: str | None = None
    """Model id or directory whose tokenizer counts, when `tokens` is set."""

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        if (self.tokens is None) != (self.tokenizer is None):
            raise ValueError("`tokens` and `tokenizer` go together: set both, or neither")
        if self.overlap * 2 > (self.tokens or self.words):
            raise ValueError("`overlap` must be at most half of the chunk size")
        return self


class CorpusConfig(Section):
    """Where the text comes from."""

    path: str
    """A directory of .md, .txt, .html, .rst, .pdf (with the extra `pdf`); or a .jsonl, .json or .parquet file."""
    chunk: ChunkConfig = ChunkConfig()
    limit: Positive | None = None
    """Take only the first so many chunks; gold of the others counts as missed."""
    shard_chunks: Positive | None = None
    """Chunks per shard; by default 16 to 256, from the size of the corpus."""
