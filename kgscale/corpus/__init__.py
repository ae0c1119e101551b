"""Documents in, chunks.parquet out."""

from kgscale.corpus.notices import Notice, Notices
from kgscale.corpus.prepare import CorpusSummary, prepare_corpus

__all__ = ["CorpusSummary", "Notice", "Notices", "prepare_corpus"]
