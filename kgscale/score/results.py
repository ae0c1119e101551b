"""What scoring found, as plain records; `scores.json` is their JSON."""

from dataclasses import dataclass

from pydantic import TypeAdapter


@dataclass(frozen=True, slots=True)
class Interval:
    """The two ends of a 95 % interval."""

    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Metric:
    """One mode of one method: counts over all gold chunks, micro and macro averages from 0 to 1, null if undefined."""

    mode: str
    tp: int
    fp: int
    fn: int
    precision: float | None
    recall: float | None
    f1: float | None
    macro_precision: float | None
    """Mean over the chunks where it is defined; likewise the two below."""
    macro_recall: float | None
    macro_f1: float | None
    precision_interval: Interval | None = None
    recall_interval: Interval | None = None
    f1_interval: Interval | None = None


@dataclass(frozen=True, slots=True)
class Carries:
    """What a side gives at all; a mode that needs more does not apply to it. A side without items gives everything."""

    entity_types: bool
    relations: bool
    relation_types: bool
    offsets: bool = False
    """Whether any entity has offsets."""


@dataclass(frozen=True, slots=True)
class Count:
    """How often something occurred."""

    what: str
    count: int


@dataclass(frozen=True, slots=True)
class UnmappedLabel:
    """A label that leads to no type of the schema, as it was extracted; `kind` is `entity` or `relation`."""

    kind: str
    label: str
    count: int


@dataclass(frozen=True, slots=True)
class Statuses:
    """Rows by status."""

    ok: int
    truncated: int
    failed: int
    dead: int

    @property
    def usable(self) -> int:
        """Rows that carry an answer."""
        return self.ok + self.truncated

    @property
    def rows(self) -> int:
        """All rows."""
        return self.usable + self.failed + self.dead


@dataclass(frozen=True, slots=True)
class Checks:
    """What can be said of a method's answers without gold; counts over its usable rows."""

    entities: int
    relations: int
    carries: Carries
    nameless: int
    """Entities with an empty name and relations with an empty end, left out of every comparison."""
    left_out: int
    """Relations that are in no row, since the schema does not allow them between entities of these types."""
    ungrounded_rate: float | None
    """Share of entities that are not in the text."""
    off_schema_entity_rate: float | None
    """Share of the entities with a type whose type is not in the schema."""
    off_schema_relation_rate: float | None
    dangling_rate: float | None
    """Share of relation ends that are not among the entities of their chunk."""
    fallback_rate: float | None
    """Share of rows whose entities another engine than the method's usual one found."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Milliseconds per chunk; null where no row has the figure."""

    rows: int
    mean: float | None
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Latency:
    """What a method's chunks cost."""

    service: Timing
    """What the engines spent on a chunk."""
    queue: Timing
    """The wait for the engines, which batching chooses."""
    amortised: Timing
    """A chunk's share of the engine time of its batch."""
    chunks_per_s: float | None
    """Throughput of one replica of each of the method's engines: 1000 / mean amortised time."""
    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None


@dataclass(frozen=True, slots=True)
class SpanScore:
    """Mentions compared by their offsets, in one of SemEval's schemes; a partial match counts half."""

    scheme: str
    correct: int
    incorrect: int
    partial: int
    missed: int
    spurious: int
    precision: float | None
    recall: float | None
    f1: float | None
    f1_interval: Interval | None


@dataclass(frozen=True, slots=True)
class MethodScores:
    """Everything about one method."""

    method: str
    planned: int
    """Chunks of the corpus; fewer rows than this mean that extraction has not finished."""
    statuses: Statuses
    failures: tuple[Count, ...]
    """Failed and dead rows by reason."""
    coverage: float | None
    """Share of the gold chunks (without gold: of the corpus) with a usable row; the others count as empty answers."""
    without_extraction: int
    """Gold chunks without a row: missed, and in every denominator."""
    without_gold: int
    """Rows without gold, left out of the comparison with gold."""
    metrics: tuple[Metric, ...]
    """Without gold none; a mode that needs what the method or the gold never gives is left out."""
    spans: tuple[SpanScore, ...]
    """Empty where the gold or the method gives no offsets."""
    missed: tuple[Count, ...]
    """Why gold relations were not found (mode `pair+type`), one cause each."""
    spurious: tuple[Count, ...]
    """Why extracted relations are not in the gold, one cause each."""
    checks: Checks
    unmapped: tuple[UnmappedLabel, ...]
    latency: Latency

    def metric(self, mode: str) -> Metric | None:
        """The figures of one mode, or null where the mode does not apply."""
        return next((it for it in self.metrics if it.mode == mode), None)


@dataclass(frozen=True, slots=True)
class GoldSummary:
    """The reference that the metrics stand on."""

    file: str
    digest: str
    """SHA-256 of its annotations in corpus order: equal for equal gold."""
    chunks: int
    outside_corpus: int
    """Gold chunks whose id the corpus does not have; they count as missed."""
    entities: int
    relations: int
    carries: Carries
    nameless: int
    """Entities with an empty name and relations with an empty end, left out of every comparison."""
    origins: tuple[Count, ...]
    annotator: str | None = None
    """The model that made a pseudo-gold, or several joined by ` + `, where its file names it."""
    partial: int = 0
    """Chunks that are not annotated exhaustively: with them, precision is a lower bound, which lowers F1 too."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far two methods say the same, over the chunks where both have an answer: micro F1, null if both are empty."""

    first: str
    second: str
    mode: str
    f1: float | None
    chunks: int


@dataclass(frozen=True, slots=True)
class Loss:
    """The gold relations (mode `pair+type`) that one method found and another missed, by the other's cause."""

    before: str
    after: str
    relations: int
    causes: tuple[Count, ...]


@dataclass(frozen=True, slots=True)
class Resampling:
    """What the intervals stand on."""

    unit: str
    """`document` or `chunk`: what was drawn with replacement."""
    units: int
    replicates: int


@dataclass(frozen=True, slots=True)
class Scores:
    """What scoring a run found."""

    run: str
    created_at: str | None
    """When the run was started (ISO 8601, UTC)."""
    corpus: str | None
    """The fingerprint of the corpus."""
    gold: GoldSummary | None
    resampling: Resampling | None
    methods: tuple[MethodScores, ...]
    agreement: tuple[Agreement, ...]
    losses: tuple[Loss, ...]
    """For each ordered pair of methods, what the second lost of what the first found; none without gold."""

    def method(self, name: str) -> MethodScores | None:
        """The scores of one method, or null if it was not scored."""
        return next((it for it in self.methods if it.method == name), None)

    def to_json(self) -> str:
        """Indented JSON, which `from_json` reads back."""
        return _ADAPTER.dump_json(self, indent=2).decode()

    @staticmethod
    def from_json(text: str | bytes) -> "Scores":
        """Read `to_json`'s text; raises `pydantic.ValidationError`."""
        return _ADAPTER.validate_json(text)


_ADAPTER = TypeAdapter(Scores)
