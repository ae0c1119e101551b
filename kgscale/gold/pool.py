"""What a gold set is drawn from: the chunks of a corpus or a run, without those that were drawn before."""

from collections.abc import Iterator
from dataclasses import dataclass
from hashlib import blake2b
from itertools import takewhile
from pathlib import Path

import polars as pl

from kgscale.config import CorpusConfig
from kgscale.configfile import load_config
from kgscale.corpus.notices import Faults, Notices
from kgscale.corpus.prepare import chunks_of, read_corpus
from kgscale.gold.sets import Say, is_run, known_texts
from kgscale.records import Chunk
from kgscale.runs import Run

LANGUAGE_CHARACTERS = 1000
"""A language shows in as much text."""
_COLUMNS = {
    "row": pl.Int64,
    "chunk_id": pl.String,
    "doc_id": pl.String,
    "source": pl.String,
    "words": pl.Int32,
    "language": pl.String,
    "digest": pl.UInt64,
}


@dataclass(frozen=True, slots=True)
class Pool:
    """A corpus that is read as often as is needed; of a run, or cut as a config says."""

    corpus: CorpusConfig
    run: Run | None = None

    @classmethod
    def open(cls, path: str) -> "Pool":
        """The pool of a run directory, a config file, or a corpus that is cut with the default chunk size."""
        if path.endswith((".yaml", ".yml")):
            config = load_config(path)
            return cls(config.corpus, Run(config.run) if Run.exists(config.run) else None)
        if is_run(path):
            run = Run(path)
            return cls(run.config.corpus, run)
        return cls(CorpusConfig(path=path))

    def chunks(self) -> Iterator[Chunk]:
        """Every chunk, in order; raises `UserError` where the corpus cannot be read."""
        if self.run is not None:
            for start, stop in self.run.planned:
                yield from self.run.read_chunks(start, stop)
            return
        faults = Faults()
        documents = read_corpus(Path(self.corpus.path).expanduser(), faults, Notices())
        yield from chunks_of(documents, self.corpus)
        faults.raise_if_any(f"{self.corpus.path} cannot be used as it is", hint="mend or remove what is named")

    def texts(self, rows: set[int]) -> dict[int, Chunk]:
        """Some chunks with their text, by row; nothing is read beyond the last of them."""
        last = max(rows, default=-1)
        upto = takewhile(lambda it: it.row <= last, self.chunks())
        return {it.row: it for it in upto if it.row in rows}


def candidates(pool: Pool, exclude: list[Path], say: Say, *, languages: bool) -> pl.DataFrame:
    """The chunks that may be drawn: row, chunk_id, doc_id, source, words, language (ISO 639-1; null unless asked for).

    Left out, counted and told: what `exclude` (samples and gold files) holds by id or by text, chunks without text, and
    all but the first of equal texts.
    """
    known = list(known_texts(exclude))
    ids = {chunk_id for _, chunk_id, _ in known}
    digests = {_digest(text) for _, _, text in known if text is not None}
    there: set[str] = set()
    blank = 0
    parts = []
    rows: list[tuple[object, ...]] = []
    for it in pool.chunks():
        if it.chunk_id in ids:
            there.add(it.chunk_id)
        elif not it.text.strip():
            blank += 1
        else:
            language = _language(it.text) if languages else None
            rows.append((it.row, it.chunk_id, it.doc_id, it.source, it.words, language, _digest(it.text)))
        if len(rows) == 8192:
            parts.append(pl.DataFrame(rows, schema=_COLUMNS, orient="row"))
            rows = []
    everything = pl.concat([*parts, pl.DataFrame(rows, schema=_COLUMNS, orient="row")])
    kept = everything.filter(~pl.col("digest").is_in(list(digests)))
    single = kept.unique("digest", keep="first", maintain_order=True)
    for path in dict.fromkeys(path for path, _, _ in known):
        own = {chunk_id for file, chunk_id, _ in known if file == path}
        if not own & there:
            say(f"{path}: none of its {len(own):,} chunk ids is in the corpus: was it cut in another way?")
    told = {
        "drawn before": len(there),
        "with the text of one drawn before": everything.height - kept.height,
        "without text": blank,
        "whose text is there already": kept.height - single.height,
    }
    if any(told.values()):
        say("left out: " + ", ".join(f"{count:,} chunks {what}" for what, count in told.items() if count))
    return single.drop("digest")


def _digest(text: str) -> int:
    return int.from_bytes(blake2b(" ".join(text.split()).encode(), digest_size=8).digest())


def _language(text: str) -> str:
    from py3langid import classify

    return str(classify(text[:LANGUAGE_CHARACTERS])[0])
