"""What a chunk costs, by three names: service, queue and amortised time; and tokens."""

import polars as pl

from kgscale.score.results import Latency, Timing

AMORTISED = (pl.col("batch_ms") / pl.col("batch_size")).alias("amortised_ms")
TIMING_COLUMNS = ("service_ms", "queue_ms", "amortised_ms")
QUANTILES = (0.5, 0.95, 0.99)
TOKEN_COLUMNS = ("prompt_tokens", "cached_tokens", "output_tokens")


def timings(rows: pl.LazyFrame) -> pl.LazyFrame:
    """The timing of each extraction, whatever its status: time spent on a failure is spent.

    Columns: service_ms (what the engines spent on the chunk), queue_ms (its wait for them), amortised_ms (its share of
    the engine time that a batch took).
    """
    return rows.select(pl.col("service_ms", "queue_ms").cast(pl.Float32), AMORTISED.cast(pl.Float32))


def tokens(rows: pl.LazyFrame) -> pl.LazyFrame:
    """One row: the sum of each token count, and in how many rows it is known (`<name> known`)."""
    counted = pl.col(TOKEN_COLUMNS)
    return rows.select(counted.cast(pl.Int64).sum(), counted.count().name.suffix(" known"))


def summary(of: pl.DataFrame) -> pl.DataFrame:
    """One row per timing column: what, rows (with a value), and mean, p50, p95, p99 in milliseconds."""
    # One column after the other: each is sorted for its quantiles.
    return pl.concat([_column_summary(of, it) for it in TIMING_COLUMNS])


def _column_summary(of: pl.DataFrame, what: str) -> pl.DataFrame:
    ms = pl.col(what).cast(pl.Float64)
    quantiles = [ms.quantile(q, "linear").alias(f"p{round(q * 100)}") for q in QUANTILES]
    return of.select(pl.lit(what).alias("what"), ms.count().alias("rows"), ms.mean().alias("mean"), *quantiles)


def latency(of: pl.DataFrame, counted: pl.DataFrame) -> Latency:
    """What the chunks of one method cost, from their `timings` and their `tokens`."""
    named = summary(of).rows_by_key("what", named=True, unique=True)
    service, queue, amortised = (Timing(**named[it]) for it in TIMING_COLUMNS)
    known = (pl.when(pl.col(f"{it} known") > 0).then(it).alias(it) for it in TOKEN_COLUMNS)
    prompt, cached, output = counted.select(known).row(0)
    return Latency(
        service=service,
        queue=queue,
        amortised=amortised,
        chunks_per_s=1000 / amortised.mean if amortised.mean else None,
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=output,
    )
