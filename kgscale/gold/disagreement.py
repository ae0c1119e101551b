"""How far the methods of a run disagree on each chunk."""

from itertools import combinations

import polars as pl

from kgscale.errors import UserError
from kgscale.extract.methods import finds_relations
from kgscale.gold.sets import Say
from kgscale.runs import Run
from kgscale.score.batches import Extractions, batches
from kgscale.score.items import items, usable
from kgscale.score.keys import Keys
from kgscale.score.match import Mode, matches
from kgscale.score.metrics import F1


def disagreement(run: Run, say: Say) -> pl.DataFrame:
    """For each chunk that every method has answered: row, f1 (mean over the pairs of methods), apart.

    F1 is that of entities (name and type) and, where both methods look for them, relations (ends and type) together;
    two empty answers agree fully. `apart` counts what only one method of a pair says. Raises `UserError` for a run with
    less than two methods.
    """
    methods = [Extractions.of(run, it) for it in run.methods if run.committed(it)]
    if len(methods) < 2:
        raise UserError(
            f"only {len(methods)} methods have extracted anything",
            where=run.store.uri,
            hint="an informative sample needs two that can disagree",
        )
    keys = Keys.of(run.config.schema_)
    relations = [finds_relations(run.config, it.method) for it in methods]
    parts = [_batch([it.read(*rows) for it in methods], relations, keys.fresh()) for rows in batches(run)]
    found = pl.concat(parts)
    if found.height < run.rows:
        say(f"left out: {run.rows - found.height:,} chunks that not every method has answered")
    return found


def _batch(answers: list[pl.DataFrame], relations: list[bool], keys: Keys) -> pl.DataFrame:
    rows = usable(answers[0]).select("row")
    for it in answers[1:]:
        rows = rows.join(usable(it).select("row"), on="row", how="semi")
    rows = rows.sort("row")
    said = [items(it.join(rows, on="row", how="semi"), keys).collected() for it in answers]
    pairs = []
    for (first, one), (second, other) in combinations(zip(said, relations, strict=True), 2):
        modes = [Mode.NAME_TYPE, Mode.PAIR_TYPE] if one and other else [Mode.NAME_TYPE]
        counts = matches(first, second, keys).by_chunk(rows["row"]).filter(pl.col("mode").is_in(modes))
        total = counts.group_by("row").agg(pl.col("tp", "fp", "fn").sum())
        pairs.append(total.select("row", F1.fill_null(1.0), apart=pl.col("fp") + pl.col("fn")))
    return pl.concat(pairs).group_by("row").agg(pl.col("f1").mean(), pl.col("apart").sum())
