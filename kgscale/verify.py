"""Whether a run directory is whole: every row there once, every file what it says it is."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from kgscale.footer import OTHER_VERSION, misfit
from kgscale.records import CHUNK_SCHEMA, GOLD_SCHEMA, Status
from kgscale.runs import CHUNKS_FILE, EXTRACTIONS, GOLD_FILE, RUN_FILE, Range, Run, Shard, gaps, range_of
from kgscale.shards import RETRIES

BROKEN_SEAL = "is not, byte for byte, as it was written (or is of an earlier version): its hash of itself does not fit"
SCORES = "scores"
"""The folder of what scoring writes."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and the file (relative to the run directory) or method it is wrong with."""

    where: str
    message: str
    damaged: bool = False
    """Whether it is a file that is not what it should be, and not something that is missing or too much."""

    def __str__(self) -> str:
        return f"{self.where}: {self.message}"


@dataclass
class Verification:
    """What `verify` found; `rows` counts the committed rows per method."""

    chunks: int
    rows: dict[str, int] = field(default_factory=dict)
    files: int = 0
    problems: list[Problem] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        """Whether nothing is wrong and nothing is missing."""
        return not self.problems


def verify(run: Run) -> Verification:
    """Read every file of a run and compare it with the corpus, the schema and the run's fingerprint.

    The committed ranges of each method must tile the corpus without gap or overlap; each file must hold the rows that
    its name promises, with the chunk ids of the corpus, under the fingerprint of this run.
    """
    if run.changed_by_others:
        told = "is not as kgscale wrote it; `kgscale extract CONFIG` writes it anew where the config is still the same"
        return Verification(0, problems=[Problem(RUN_FILE, told, damaged=True)])
    try:
        schema = run.store.parquet(CHUNKS_FILE).schema_arrow
        if not schema.equals(CHUNK_SCHEMA):
            return Verification(
                0, problems=[Problem(CHUNKS_FILE, "its columns are not those of a corpus", damaged=True)]
            )
        for _ in run.chunk_tables(0, run.rows):
            # Each is read, and its checksums compared; none is kept.
            pass
        if not run.store.is_sealed(CHUNKS_FILE):
            return Verification(0, problems=[Problem(CHUNKS_FILE, BROKEN_SEAL, damaged=True)])
    except (OSError, pa.ArrowException) as error:
        return Verification(0, problems=[Problem(CHUNKS_FILE, f"cannot be read: {error}", damaged=True)])
    found = Verification(run.rows)
    for method in run.methods:
        _verify_method(run, method, found)
    if run.store.exists(GOLD_FILE):
        _verify_table(run, GOLD_FILE, found, GOLD_SCHEMA)
    elif run.config.gold is not None:
        found.problems.append(Problem(GOLD_FILE, "is missing, though the run has gold"))
    for name in run.store.names(SCORES):
        _verify_table(run, f"{SCORES}/{name}", found)
    for stranger in sorted(set(run.store.folders(EXTRACTIONS)) - set(run.methods)):
        found.problems.append(Problem(f"{EXTRACTIONS}/{stranger}", "belongs to no method of this run"))
    return found


def _verify_table(run: Run, name: str, found: Verification, schema: pa.Schema | None = None) -> None:
    """Read a table that is not of a shard, a few rows at a time; `schema` is what it must have."""
    try:
        file = run.store.parquet(name)
        for _ in file.iter_batches():
            pass
        sealed = run.store.is_sealed(name)
    except (OSError, pa.ArrowException) as error:
        found.problems.append(Problem(name, f"cannot be read: {error}", damaged=True))
        return
    if schema is not None and not file.schema_arrow.equals(schema):
        found.problems.append(Problem(name, "its columns are not those it should have", damaged=True))
    elif not sealed:
        found.problems.append(Problem(name, BROKEN_SEAL, damaged=True))


def _verify_method(run: Run, method: str, found: Verification) -> None:
    folder = f"{EXTRACTIONS}/{method}"
    ranges: list[Range] = []
    found.rows[method] = 0
    for name in run.store.names(folder):
        found.files += 1
        where = f"{folder}/{name}"
        span = range_of(name)
        if span is None:
            found.problems.append(Problem(where, "is no shard file (its name is no row range)", damaged=True))
            continue
        problems = [
            # Good rows of another version are not to be set aside by a repair.
            Problem(where, message, damaged=message != OTHER_VERSION)
            for message in _file_problems(run, Shard(method, *span), where)
        ]
        found.problems += problems
        if not problems:
            ranges.append(span)
            found.rows[method] += span[1] - span[0]
    _verify_retries(run, method, found)
    missing = gaps(0, run.rows, ranges)
    if missing:
        rows = sum(stop - start for start, stop in missing)
        first = ", ".join(f"{start}-{stop}" for start, stop in missing[:5])
        found.problems.append(Problem(method, f"{rows} of {run.rows} rows are missing: {first}{_more(missing)}"))
    for before, after in _neighbours(sorted(ranges)):
        if after[0] < before[1]:
            found.problems.append(Problem(method, f"rows {after[0]}-{min(before[1], after[1])} are there twice"))


def _verify_retries(run: Run, method: str, found: Verification) -> None:
    """Rows that were tried again by a driver that was stopped, which the next one puts in the place of the old ones."""
    for name in run.store.names(f"{RETRIES}/{method}"):
        where, span = f"{RETRIES}/{method}/{name}", range_of(name)
        wrong = ["is no shard file"] if span is None else _file_problems(run, Shard(method, *span), where)
        found.problems += [Problem(where, message, damaged=message != OTHER_VERSION) for message in wrong]


def _file_problems(run: Run, shard: Shard, name: str) -> Iterator[str]:
    try:
        file = run.store.parquet(name)
        wrong = misfit(file, shard, run.footer(shard))
        table = file.read()
        if not run.store.is_sealed(name):
            # What a flipped footer says of itself is not to be believed.
            wrong = BROKEN_SEAL
    except (OSError, pa.ArrowException) as error:
        yield f"cannot be read: {error}"
        return
    if wrong is not None:
        yield wrong
        return
    if table["row"].to_pylist() != list(range(shard.start, shard.stop)):
        yield f"holds other rows than {shard.start}-{shard.stop}"
        return
    if shard.stop > run.rows:
        yield f"goes beyond the corpus of {run.rows} chunks"
        return
    if table["chunk_id"].to_pylist() != run.chunk_ids(shard.start, shard.stop):
        yield "its chunk ids are not those of the corpus"
    if pc.unique(table["method"]).to_pylist() != [shard.method]:
        yield f"holds rows of another method than {shard.method}"
    unknown = set(pc.unique(table["status"]).to_pylist()) - set(Status)
    if unknown:
        yield f"holds an unknown status: {', '.join(sorted(unknown))}"


def _neighbours(ranges: list[Range]) -> Iterator[tuple[Range, Range]]:
    """Each range with the one before it that reaches furthest."""
    reach: Range | None = None
    for span in ranges:
        if reach is not None:
            yield reach, span
        if reach is None or span[1] > reach[1]:
            reach = span


def _more(missing: list[Range]) -> str:
    return f" and {len(missing) - 5} more ranges" if len(missing) > 5 else ""
