"""Which chunks to annotate: drawn at random, in proportion to what the corpus holds, or where methods disagree."""

import random
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

import polars as pl

from kgscale.errors import UserError
from kgscale.gold.disagreement import disagreement
from kgscale.gold.pool import Pool, candidates
from kgscale.gold.sets import Say, refuse_overwriting, write_lines
from kgscale.records import Chunk

BANDS = 3
"""Length bands with equally many chunks each."""
STRATA = ("language", "band", "source", "doc_id", "row")
"""By what the chunks are ordered for a stratified sample."""


class By(StrEnum):
    """How a sample is drawn."""

    RANDOM = "random"
    """Every chunk with the same probability."""
    STRATIFIED = "stratified"
    """Every chunk with the same probability, and every language, length, source and document by its share."""
    INFORMATIVE = "informative"
    """The chunks on which the methods of a run disagree most: they show errors, and say nothing about the average."""


@dataclass(frozen=True, slots=True)
class Sample:
    """What was drawn, and from how many chunks."""

    chunks: int
    documents: int
    pool: int
    by: By
    languages: dict[str, int]
    """Chunks by language, where the sample is stratified."""


def write_sample(src: str, out: Path, size: int, by: By, seed: int, exclude: list[Path], say: Say) -> Sample:
    """Draw `size` chunks of a corpus, config or run into a file of JSON lines, which is a corpus of its own.

    The same seed draws the same chunks. Their order is such that any beginning of the file is a sample of the same
    kind. Raises `UserError` if nothing is left to draw, or `out` is there already.
    """
    refuse_overwriting(out)
    pool = Pool.open(src)
    if by is By.INFORMATIVE and pool.run is None:
        raise UserError("methods disagree in a run", where=src, hint="name a run that has extracted with two methods")
    found = candidates(pool, exclude, say, languages=by is By.STRATIFIED)
    if by is By.INFORMATIVE and pool.run is not None:
        found = found.join(disagreement(pool.run, say), on="row")
    if found.is_empty():
        raise UserError("no chunk is left to draw", where=src)
    if found.height < size:
        say(f"there are only {found.height:,} chunks to draw from, of {size:,} that were asked for")
    rng = random.Random(seed)  # noqa: S311  # a sample must be repeatable, not secret
    drawn = _DRAW[by](found, min(size, found.height), rng)
    texts = pool.texts(set(drawn["row"]))
    note: dict[str, object] = {"by": by.value, "seed": seed, "of": found.height}
    rows = [_line(texts[it["row"]], note, it) for it in drawn.iter_rows(named=True)]
    write_lines(out, rows)
    languages = dict(drawn["language"].drop_nulls().value_counts(sort=True).iter_rows())
    return Sample(drawn.height, drawn["doc_id"].n_unique(), found.height, by, languages)


def _random(found: pl.DataFrame, size: int, rng: random.Random) -> pl.DataFrame:
    return found[rng.sample(range(found.height), size)]


def _stratified(found: pl.DataFrame, size: int, rng: random.Random) -> pl.DataFrame:
    """Systematic sampling from a sorted list (implicit stratification: Lohr, Sampling, 2nd ed. 2010, section 5.5).

    Every n/size-th chunk is taken from a random start, so a stratum that is one stretch of the list gets its share,
    rounded down or up.
    """
    band = ((pl.col("words").rank("ordinal") - 1) * BANDS // pl.len()).alias("band")
    ordered = found.with_columns(band).sort(STRATA, nulls_last=True)
    start = rng.random()
    taken = ordered[[int((start + at) * found.height / size) for at in range(size)]]
    return taken[rng.sample(range(size), size)]


def _informative(found: pl.DataFrame, size: int, rng: random.Random) -> pl.DataFrame:
    """Lowest F1 between the methods first; of equal ones, those with more that only one method says."""
    shuffled = found[rng.sample(range(found.height), found.height)]
    return shuffled.sort("f1", "apart", descending=[False, True], maintain_order=True).head(size)


_DRAW = {By.RANDOM: _random, By.STRATIFIED: _stratified, By.INFORMATIVE: _informative}


def _line(chunk: Chunk, note: dict[str, object], row: dict[str, object]) -> dict[str, object]:
    told = {key: row[key] for key in ("language", "f1") if row.get(key) is not None}
    source = {} if chunk.source is None else {"source": chunk.source}
    return {
        "chunk_id": chunk.chunk_id,
        "doc_id": chunk.doc_id,
        **source,
        "text": chunk.text,
        "sampled": {**note, **told},
    }
