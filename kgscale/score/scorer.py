"""Scoring a run: every committed row of every method, against gold where there is some, and against each other."""

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations

from kgscale.errors import UserError
from kgscale.runs import GOLD_FILE, Range, Run
from kgscale.score.batches import Extractions, batches, in_threads
from kgscale.score.bootstrap import resampling, units_of
from kgscale.score.keys import Keys
from kgscale.score.pairs import PairCounts, PairTally
from kgscale.score.reduce import Answered, Reduced, merge, reduce_batch
from kgscale.score.reference import NO_CHUNKS, NO_GOLD, Gold, GoldBatch, GoldCounts, GoldTally
from kgscale.score.results import Scores
from kgscale.score.summarise import Basis, method_scores
from kgscale.score.tables import SCORES_FILE, MethodTables, write_tables


def score_run(run: Run, *, gold: str | None = None) -> Scores:
    """Score what is committed, and write `scores.json` and `scores/*.parquet` into the run directory.

    `gold` names a file in the run directory with `GOLD_SCHEMA`; by default it is the run's gold, where there is one.
    A run that is still going on is scored as it stands: gold chunks without a row count as missed. Raises `UserError`
    when nothing is committed, a file is damaged, or a gold chunk id stands twice.
    """
    methods = [it for it in (Extractions.of(run, name) for name in run.methods) if it.rows]
    if not methods:
        raise UserError("no extraction is committed yet", where=run.store.uri, hint="run `kgscale extract` first")
    name = gold or (GOLD_FILE if run.store.exists(GOLD_FILE) else None)
    if name is None and run.config.gold is not None:
        raise UserError(
            "the run's gold is missing",
            where=run.store.url(GOLD_FILE),
            hint="`kgscale extract CONFIG` reads it again; rows that are done stay",
        )
    reference = Gold.open(run, name) if name else None
    if reference and reference.index.is_empty():
        reference = None
    keys = Keys.of(run.config.schema_)

    def counted_in(rows: Range) -> _Counted:
        return _Counted.of(run, methods, reference, rows, keys.fresh())

    tally = GoldTally()
    reduced: list[Sequence[Reduced]] = []
    paired: list[Sequence[PairCounts]] = []
    for it in in_threads(counted_in, _ranges(run, reference)):
        tally.add(it.gold)
        reduced.append(it.methods)
        paired.append(it.pairs)

    units = units_of(reference.index) if reference else None
    wanted = reference.index.height if reference else run.rows
    basis = Basis(wanted, tally.summary(reference) if reference else None, units)
    chunks = (reference.index if reference else NO_CHUNKS).drop("place")
    counted = [
        MethodTables(it.method, merge(parts)) for it, parts in zip(methods, zip(*reduced, strict=True), strict=True)
    ]
    with ThreadPoolExecutor(1) as beside:
        written = beside.submit(write_tables, run.store, counted, chunks)
        scored = [method_scores(run, it.method, it.reduced, basis) for it in counted]
        written.result()
    pairs = [
        (PairTally(parts), *two) for two, parts in zip(combinations(scored, 2), zip(*paired, strict=True), strict=True)
    ]
    scores = Scores(
        run=run.store.uri,
        created_at=run.info.get("created_at"),
        corpus=run.corpus_sha256,
        gold=basis.gold,
        resampling=resampling(units) if units is not None else None,
        methods=tuple(scored),
        agreement=tuple(x for it, *two in pairs for x in it.agreement(*two)),
        losses=tuple(x for it, *two in pairs for x in it.losses(*two)),
    )
    run.store.write(SCORES_FILE, scores.to_json().encode())
    return scores


@dataclass(frozen=True, slots=True)
class _Counted:
    """All that is kept of one batch."""

    gold: GoldCounts
    methods: Sequence[Reduced]
    pairs: Sequence[PairCounts]
    """One for each two methods, in the order of `combinations`."""

    @classmethod
    def of(
        cls, run: Run, methods: Sequence[Extractions], reference: Gold | None, rows: Range, keys: Keys
    ) -> "_Counted":
        batch = GoldBatch.of(reference.read(*rows) if reference else NO_GOLD, keys)
        answered = [Answered.of(it.read(*rows), batch, keys) for it in methods]
        return cls(
            GoldCounts.of(batch, keys),
            [reduce_batch(it, keys, _engine(run, of.method)) for it, of in zip(answered, methods, strict=True)],
            [PairCounts.of(*two, keys) for two in combinations(answered, 2)],
        )


def _ranges(run: Run, gold: Gold | None) -> Iterator[Range]:
    yield from batches(run)
    if gold and gold.rows > gold.corpus_rows:
        yield gold.corpus_rows, gold.rows


def _engine(run: Run, method: str) -> str | None:
    """The engine that usually finds the method's entities; null where the config does not know the method."""
    declared = run.config.methods.get(method)
    return declared.entities if declared else None
