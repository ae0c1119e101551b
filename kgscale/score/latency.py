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
    the engine time that a batch took), and the token counts.
    """
    return rows.select(
        pl.col("service_ms", "queue_ms").cast(pl.Float32),
        AMORTISED.cast(pl.Float32),
        pl.col(TOKEN_COLUMNS),
    )


def summary(of: pl.DataFrame) -> pl.DataFrame:
    """One row per timing column: what, rows (with a value), and mean, p50, p95, p99 in milliseconds."""
    ms = pl.col("ms").cast(pl.Float64)
    quantiles = [ms.quantile(q, "linear").alias(f"p{round(q * 100)}") for q in QUANTILES]
    long = of.select(TIMING_COLUMNS).unpivot(variable_name="what", value_name="ms")
    return long.group_by("what", maintain_order=True).agg(ms.count().alias("rows"), ms.mean().alias("mean"), *quantiles)


def latency(of: pl.DataFrame) -> Latency:
    """What the chunks of one method cost, from their `timings`."""
    named = summary(of).rows_by_key("what", named=True, unique=True)
    empty = Timing(0, None, None, None, None)
    service, queue, amortised = (Timing(**named[it]) if it in named else empty for it in TIMING_COLUMNS)
    counted = pl.col(TOKEN_COLUMNS).cast(pl.Int64)
    prompt, cached, output = of.select(pl.when(counted.count() > 0).then(counted.sum())).row(0)
    return Latency(
        service=service,
        queue=queue,
        amortised=amortised,
        chunks_per_s=1000 / amortised.mean if amortised.mean else None,
        prompt_tokens=prompt,
        cached_tokens=cached,
        output_tokens=output,
    )
