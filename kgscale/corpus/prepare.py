"""The corpus of a run: read, cut, counted and written as chunks.parquet, one row group per shard."""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from hashlib import blake2b, sha256
from itertools import chain, islice
from pathlib import Path

from kgscale.config import CorpusConfig
from kgscale.corpus.chunk import chunk_ids, cut, measure_of
from kgscale.corpus.notices import Faults, Notice, Notices
from kgscale.corpus.read import TEXT_READERS, Document, read_directory, read_document
from kgscale.corpus.rows import ROW_READERS, read_rows
from kgscale.errors import UserError
from kgscale.records import Chunk
from kgscale.runs import write_chunks
from kgscale.store import Store
from kgscale.text import words

SHARDS = 32
"""The least number of shards that a corpus of some size is cut into, so that every worker gets several."""
SMALLEST_SHARD, LARGEST_SHARD = 16, 256
_BUFFERED_CHARACTERS = 32 * 2**20
_SAY_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class CorpusSummary:
    """What was written, and what there is to tell about it."""

    chunks: int
    documents: int
    words: int
    """Summed over the chunks: what two chunks share counts twice."""
    sha256: str
    """Over chunk id, document id and text of every chunk, in order; names of files and shards have no part in it."""
    shard_chunks: int
    notices: list[Notice]
    """The first of each kind."""
    notice_counts: dict[str, int]
    """How many there are of each kind."""


def read_corpus(path: Path, faults: Faults, notices: Notices) -> Iterator[Document]:
    """The documents or chunks of a directory or a file, one at a time.

    What would lose or confuse data goes to `faults`, what is harmless to `notices`. Raises `UserError` if there is
    nothing at `path`, or nothing that kgscale reads.
    """
    suffix = path.suffix.lower()
    if path.is_dir():
        yield from read_directory(path, faults, notices)
    elif not path.exists():
        raise UserError(f"there is no file or directory {path}", hint="`corpus.path` is taken from where you are")
    elif suffix in ROW_READERS:
        yield from read_rows(path, faults, notices)
    elif suffix in TEXT_READERS:
        document = read_document(path, path.name, faults, notices)
        if document:
            yield document
    else:
        known = ", ".join([*TEXT_READERS, *ROW_READERS])
        raise UserError(f"kgscale does not read {suffix or 'files without a suffix'}", where=str(path), hint=known)


def prepare_corpus(config: CorpusConfig, store: Store, *, say: Callable[[str], None]) -> CorpusSummary:
    """Read and cut the corpus and write chunks.parquet, whole or not at all; `say` hears of the progress.

    Memory is bounded by the largest document and a few dozen MiB, whatever the size of the corpus. Raises `UserError`
    that lists every fault (the first 20 in full) if there is one, and if there is no text at all.
    """
    faults, notices = Faults(), Notices()
    tally = _Tally(say)
    documents = read_corpus(Path(config.path).expanduser(), faults, notices)
    chunks = tally.counted(islice(chunks_of(documents, config), config.limit))
    first = _first(chunks)
    shard_chunks = config.shard_chunks or shard_size(len(first))

    def checked() -> Iterator[Chunk]:
        yield from chain(first, chunks)
        # Raised while the file is being written, so that it never appears.
        faults.raise_if_any(f"the corpus {config.path} cannot be used as it is", hint="mend or remove what is named")
        if not tally.chunks:
            left_out = [f"  {count:,} × {kind}" for kind, count in notices.counts.items()]
            raise UserError("\n".join([f"there is no text in the corpus {config.path}", *left_out]))

    write_chunks(store, checked(), shard_chunks)
    return CorpusSummary(
        chunks=tally.chunks,
        documents=len(tally.documents),
        words=tally.words,
        sha256=tally.hash.hexdigest(),
        shard_chunks=shard_chunks,
        notices=notices.first,
        notice_counts=dict(notices.counts),
    )


def shard_size(chunks: int) -> int:
    """Chunks per shard: the largest power of two from 16 to 256 that gives at least 32 shards, else 16."""
    size = LARGEST_SHARD
    while size > SMALLEST_SHARD and size * SHARDS > chunks:
        size //= 2
    return size


def chunks_of(documents: Iterator[Document], config: CorpusConfig) -> Iterator[Chunk]:
    """Documents cut as the config says, chunks as they are; rows are numbered from 0."""
    chunk = config.chunk
    measure, size = measure_of(chunk), chunk.tokens or chunk.words
    row = 0
    for document in documents:
        if document.chunk_id is not None:
            pieces = [(document.chunk_id, document.text)]
        else:
            texts = [document.text[start:end] for start, end in cut(document.text, size, chunk.overlap, measure)]
            pieces = list(zip(chunk_ids(document.doc_id, texts), texts, strict=True))
        for chunk_id, text in pieces:
            yield Chunk(chunk_id, document.doc_id, row, text, words(text), document.source)
            row += 1


def _first(chunks: Iterator[Chunk]) -> list[Chunk]:
    """As many chunks as are needed to choose the size of a shard, or as many as may wait in memory for that."""
    first: list[Chunk] = []
    characters = 0
    for chunk in islice(chunks, SHARDS * LARGEST_SHARD):
        first.append(chunk)
        characters += len(chunk.text)
        if characters > _BUFFERED_CHARACTERS:
            break
    return first


class _Tally:
    """Counts what passes, and says so now and then."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.chunks = 0
        self.words = 0
        self.documents: set[int] = set()
        self.hash = sha256()
        self._say = say
        self._said_at = time.monotonic()

    def counted(self, chunks: Iterator[Chunk]) -> Iterator[Chunk]:
        """Pass the chunks on."""
        for chunk in chunks:
            self.chunks += 1
            self.words += chunk.words
            self.documents.add(int.from_bytes(blake2b(chunk.doc_id.encode(), digest_size=8).digest()))
            for part in (chunk.chunk_id, chunk.doc_id, chunk.text):
                data = part.encode()
                # With its length before each part, no two corpora read the same.
                self.hash.update(len(data).to_bytes(8) + data)
            if time.monotonic() - self._said_at > _SAY_EVERY_S:
                self._said_at = time.monotonic()
                self._say(f"corpus: {self.chunks:,} chunks of {len(self.documents):,} documents")
            yield chunk
