"""What a user may set: one model per section of the config file, every field with its default and its meaning."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator


class UnknownNameError(ValueError):
    """A name in the config that refers to nothing; `location` is the path of the field that holds it."""

    def __init__(self, location: tuple[str, ...], message: str) -> None:
        super().__init__(message)
        self.location = location


Share = Annotated[float, Field(ge=0, le=1)]
Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, populate_by_name=True)


class ChunkConfig(_Section):
    """How documents are cut; input that is already cut (chunks with ids) is left as it is."""

    words: Positive = 300
    """Longest chunk in words; a character of a script without spaces, such as Chinese, counts as a word."""
    tokens: Positive | None = None
    """Longest chunk in tokens of `tokenizer`, in place of `words`."""
    overlap: NonNegative = 40
    """Words (or tokens) repeated from the end of the chunk before."""
    tokenizer: str | None = None
    """Model id or directory whose tokenizer counts, when `tokens` is set."""

    @model_validator(mode="after")
    def _sizes(self) -> Self:
        if (self.tokens is None) != (self.tokenizer is None):
            raise ValueError("`tokens` and `tokenizer` go together: set both, or neither")
        if self.overlap * 2 > (self.tokens or self.words):
            raise ValueError("`overlap` must be at most half of the chunk size")
        return self


class CorpusConfig(_Section):
    """Where the text comes from."""

    path: str
    """A directory of .md, .txt, .html, .rst, .pdf (with the extra `pdf`); or a .jsonl, .json or .parquet file."""
    chunk: ChunkConfig = ChunkConfig()
    limit: Positive | None = None
    """Take only the first so many chunks; gold of the others counts as missed."""
    shard_chunks: Positive | None = None
    """Chunks per shard; by default 16 to 256, from the size of the corpus."""


class RelationType(_Section):
    """One relation type of the schema."""

    description: str | None = None
    """What the relation means, for the prompt."""
    symmetric: bool = False
    """Whether source and target may be swapped."""


class Aliases(_Section):
    """Other spellings, mapped to the ones that the schema uses; applied to both sides when scoring."""

    entity_types: dict[str, str] = {}
    """For example `ORG: organization`."""
    relation_types: dict[str, str] = {}
    """For example `employed_by: works_for`."""
    names: dict[str, str] = {}
    """For example `PostgreSQL: Postgres`."""


class SchemaConfig(_Section):
    """What is to be extracted."""

    entity_types: dict[str, str | None] = {
        "organization": "companies and institutions",
        "person": None,
        "location": "cities, countries and regions",
        "product": "devices, programs and services",
        "technology": "languages, protocols, formats and methods",
        "date": None,
    }
    """Entity types, each with an optional description; a plain list works too."""
    relation_types: dict[str, RelationType] = {
        "founded_by": RelationType(),
        "works_for": RelationType(),
        "located_in": RelationType(),
        "developed_by": RelationType(),
        "uses": RelationType(),
        "part_of": RelationType(),
        "partner_of": RelationType(symmetric=True),
    }
    """Relation types, each with `description` and `symmetric`; a plain list works too."""
    aliases: Aliases = Aliases()

    @field_validator("entity_types", mode="before")
    @classmethod
    def _entity_list(cls, value: Any) -> Any:
        return _from_list(value, None)

    @field_validator("relation_types", mode="before")
    @classmethod
    def _relation_list(cls, value: Any) -> Any:
        value = _from_list(value, {})
        if not isinstance(value, dict):
            return value
        return {
            name: {"description": it} if isinstance(it, str) else {} if it is None else it for name, it in value.items()
        }

    @field_validator("entity_types")
    @classmethod
    def _some(cls, value: dict[str, Any]) -> dict[str, Any]:
        if not value:
            raise ValueError("at least one type is needed")
        return value

    @field_validator("entity_types", "relation_types")
    @classmethod
    def _names(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if not name.strip():
                raise ValueError("a type needs a name")
        return value


class GlinerEngine(_Section):
    """GLiNER, a small encoder that finds entities."""

    kind: Literal["gliner"] = "gliner"
    model: str = "gliner-minilm"
    """A model that kgscale prepares (`kgscale models list`), a Hugging Face id, or a directory."""
    revision: str | None = None
    """Revision of a Hugging Face id."""
    threshold: Share | None = None
    """Lowest score of an entity; by default the one stored with the model, else 0.5."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Floating-point type to compute in; by default bfloat16 where the machine multiplies in it, else float32. In
    bfloat16 an entity whose score is just at the threshold may depend on what else is in its batch."""
    batch_tokens: Positive | None = None
    """Padded word pieces in one batch; by default 4,096 on a CPU and 65,536 on a GPU."""
    window_overlap: NonNegative = 48
    """Words that neighbouring windows of a long chunk share."""
    labels: dict[str, str] = {}
    """Other wording of an entity type for this model, for example `organization: company or institution`."""


class _LlmEngine(_Section):
    model: str
    revision: str | None = None
    """Revision of a Hugging Face id."""
    max_tokens: Positive = 512
    """Longest answer in tokens; a longer one is cut and the chunk is `truncated`."""
    temperature: Annotated[float, Field(ge=0, le=2)] = 0.0
    """0 is greedy."""
    max_entities: Positive = 40
    """Most entities in one answer."""
    max_relations: Positive = 40
    """Most relations in one answer."""


class VllmEngine(_LlmEngine):
    """A local language model, served by vLLM inside the worker."""

    kind: Literal["vllm"] = "vllm"
    model: str = "smollm2-135m-kg"
    """A model that kgscale prepares (`kgscale models list`), a Hugging Face id, or a directory."""
    answer: Literal["arrays", "objects"] = "arrays"
    """Form of the JSON answer: short arrays, or objects with named fields."""
    max_model_len: Positive = 4096
    """Longest prompt and answer together, in tokens; longer chunks are cut into windows."""
    max_num_seqs: Positive | None = None
    """Chunks in the engine at once; by default 16 on a CPU and 512 on a GPU."""
    kv_cache_gib: Annotated[float, Field(gt=0)] | None = None
    """Memory for the KV cache; by default 1 GiB on a CPU, and what the GPU has left on a GPU."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """Number format of the weights; `auto` is the model's own."""
    trust_remote_code: bool = False
    """Run code that comes with the model; leave it off unless you have read that code."""
    engine_args: dict[str, Any] = {}
    """Anything else for vLLM's engine, by vLLM's own names."""


class OpenAIEngine(_LlmEngine):
    """A language model behind any OpenAI-compatible HTTP endpoint."""

    kind: Literal["openai"] = "openai"
    model: str
    """The name that the endpoint knows."""
    base_url: str = "https://api.openai.com/v1"
    """The endpoint, for example `http://localhost:11434/v1`."""
    api_key_env: str | None = "OPENAI_API_KEY"
    """Environment variable that holds the key; null where none is needed. The key itself is never stored."""
    answer: Literal["arrays", "objects"] = "objects"
    """Form of the JSON answer: short arrays, or objects with named fields."""
    response_format: Literal["json_schema", "json_object", "none"] = "json_schema"
    """How the endpoint is asked for JSON."""
    concurrency: Positive = 8
    """Requests in flight at once."""
    retries: NonNegative = 5
    """Further tries after 429, 5xx or a broken connection, with growing pauses."""
    timeout_s: Annotated[float, Field(gt=0)] = 120.0
    """Longest wait for one answer."""
    request: dict[str, Any] = {}
    """Other fields of each request by the endpoint's own names; null leaves one out, such as `temperature: null`."""
    max_chunk_words: Positive = 3000
    """Longer chunks are cut into windows of this size."""


Engine = Annotated[GlinerEngine | VllmEngine | OpenAIEngine, Field(discriminator="kind")]
LlmEngine = VllmEngine | OpenAIEngine
ENGINE_KINDS: dict[str, type[GlinerEngine | VllmEngine | OpenAIEngine]] = {
    "gliner": GlinerEngine,
    "vllm": VllmEngine,
    "openai": OpenAIEngine,
}


class Fallback(_Section):
    """When a chunk goes to an LLM for its entities too, because GLiNER's answer is uncertain."""

    engine: str = "llm"
    """The LLM that takes over."""
    when: tuple[Literal["empty", "low_score", "truncated"], ...] = ("empty", "low_score", "truncated")
    """No entity found; mean score below `min_score`; answer cut."""
    min_score: Share = 0.6
    """Below this mean score of GLiNER's entities a chunk is uncertain."""


class MethodConfig(_Section):
    """A way of extracting: which engine finds the entities, which the relations."""

    entities: str
    """Name of an engine."""
    relations: str | None = None
    """Name of an LLM engine; the same as `entities` asks for both in one prompt; null for entities alone."""
    fallback: Fallback | None = None
    """LLM fallback on uncertain chunks, for GLiNER entities."""


class AllowedDrop(_Section):
    """How far a score may fall below the baseline's, in points (hundredths)."""

    minimum: Annotated[float, Field(ge=0)]
    """From here on the candidate is at best worth a closer look."""
    recommended: Annotated[float, Field(ge=0)]
    """What the LightRAG guide recommends to stay below; reported."""


class Threshold(_Section):
    """What is expected of a score; a score without a threshold is only shown."""

    floor: Share | None = None
    """What a candidate needs (0 to 1), unless it is no worse than the baseline."""
    drop: AllowedDrop | None = None
    """How far it may fall below the baseline's."""


class RagThresholds(_Section):
    """Scores of answers by retrieval on the graph, from `rag.json` in the run; they do not enter the matrix."""

    faithfulness: Threshold = Threshold(floor=0.80)
    """Share of an answer's statements that the retrieved context supports."""
    answer_relevance: Threshold = Threshold(floor=0.85)
    """How far an answer is about its question."""
    context_recall: Threshold = Threshold(floor=0.75, drop=AllowedDrop(minimum=10, recommended=5))
    """Share of the true answer that the retrieved context supports."""
    context_precision: Threshold = Threshold(floor=0.70)
    """How far up in the retrieved context the useful parts are."""
    ragas: Threshold = Threshold(floor=0.75, drop=AllowedDrop(minimum=5, recommended=2))
    """The mean of the four."""


Action = Literal["use", "look", "keep"]


class CompareConfig(_Section):
    """The question: may `candidate` replace `baseline`? The numbers are the LightRAG guide's."""

    baseline: str = "llm"
    """The method that is trusted."""
    candidate: str = "hybrid"
    """The method that may replace it."""
    entity_mode: Literal["name", "name+type"] = "name+type"
    """When an entity counts as found."""
    relation_mode: Literal[
        "pair_undirected", "pair", "pair+type", "pair+type+entity_types", "directional", "relaxed", "strict"
    ] = "pair+type"
    """When a relation counts as found; the last three are the guide's names for the first three."""
    drop_steps: tuple[float, ...] = (2, 5, 10)
    """Borders between the rows of `matrix`: points of F1 lost, the larger of the entity and the relation drop."""
    speed_steps: tuple[float, ...] = (2, 5, 10)
    """Borders between the columns of `matrix`: how many times faster the candidate is."""
    matrix: tuple[tuple[Action, ...], ...] = (
        ("use", "use", "use", "use"),
        ("look", "use", "use", "use"),
        ("keep", "look", "use", "use"),
        ("keep", "keep", "look", "use"),
    )
    """What to do: `use` the candidate, `look` closer, or `keep` the baseline."""
    entity_drop: AllowedDrop = AllowedDrop(minimum=10, recommended=5)
    relation_drop: AllowedDrop = AllowedDrop(minimum=8, recommended=3)
    entity_floor: Share = 0.80
    """Entity F1 that a candidate needs, unless it is no worse than the baseline."""
    relation_floor: Share = 0.75
    """Relation F1 that a candidate needs, unless it is no worse than the baseline."""
    rag: RagThresholds = RagThresholds()
    min_coverage: Share = 0.95
    """No verdict where a smaller share of the gold chunks has a usable answer, of either method."""

    @model_validator(mode="after")
    def _shape(self) -> Self:
        for steps in (self.drop_steps, self.speed_steps):
            if list(steps) != sorted(set(steps)):
                raise ValueError("`drop_steps` and `speed_steps` must rise")
        if [len(row) for row in self.matrix] != [len(self.speed_steps) + 1] * (len(self.drop_steps) + 1):
            shape = f"{len(self.drop_steps) + 1} rows of {len(self.speed_steps) + 1}"
            raise ValueError(f"`matrix` needs {shape}: one more than the steps")
        return self


class LimitsConfig(_Section):
    """When to give up on a chunk, a worker or the job."""

    failed_share: Share = 0.05
    """More failed and dead rows than this share of a method make the command exit with 1."""
    deadline_s: Annotated[float, Field(gt=0)] | None = None
    """Longest time without a finished shard before a worker is replaced; by default 10 times the median (least 120)."""
    attempts: Positive = 2
    """Tries of a shard before it is halved, and of a single chunk before it is `dead`."""
    start_timeout_s: Annotated[float, Field(gt=0)] = 900.0
    """Longest start of an engine."""


class ClusterConfig(_Section):
    """Where the work runs: by default on this machine, with every core and GPU it has."""

    address: str | None = None
    """Ray cluster to join (`auto`, `ray://host:port`); by default the one of a submitted job, else a local one."""
    num_cpus: Positive | None = None
    """Cores of a local cluster."""
    num_gpus: NonNegative | None = None
    """GPUs of a local cluster; on one that grows on demand, how many to ask for."""
    llm_replicas: Positive | None = None
    """Copies of each vLLM engine; by default one per GPU, or one on a CPU."""
    gliner_replicas: Positive | None = None
    """Copies of each GLiNER engine; by default two per GPU, or one on a CPU."""
    llm_gpu_share: Annotated[float, Field(gt=0, le=1)] = 0.8
    """Share of a GPU that a vLLM engine books."""
    gliner_gpu_share: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Share of a GPU that a GLiNER engine books."""
    cpu_nodes: bool = True
    """Whether, in a cluster with GPUs, GLiNER also works on the nodes that have none."""
    cpus_per_worker: Annotated[float, Field(gt=0)] = 1.0
    """Cores that each worker books."""
    rates_from: str | None = None
    """An earlier run on the same hardware: `plan` and `extract` predict from the rates that were measured in it."""
    gpu_hour_price: Annotated[float, Field(ge=0)] | None = None
    """What an hour of one GPU costs, for `plan`."""
    inflight: Positive = 2
    """Shards that wait or run in a worker at once."""


class Config(_Section):
    """The whole config file."""

    run: Annotated[str, Field(min_length=1)] = "runs/default"
    """The run directory."""
    corpus: CorpusConfig
    gold: str | None = None
    """Reference annotations: a JSON file in the guide's form, or a Parquet file in kgscale's."""
    gold_exhaustive: bool = True
    """Whether the gold annotates everything in its chunks; if not, precision is shown as a lower bound."""
    schema_: SchemaConfig = Field(default=SchemaConfig(), alias="schema")
    """What is to be extracted."""
    engines: dict[str, Engine] = {"gliner": GlinerEngine(), "llm": VllmEngine()}
    """Models by name; `kind` is `gliner`, `vllm` or `openai` (by default from the name: gliner…, else vllm)."""
    methods: dict[str, MethodConfig] = {
        "gliner": MethodConfig(entities="gliner"),
        "llm": MethodConfig(entities="llm", relations="llm"),
        "hybrid": MethodConfig(entities="gliner", relations="llm"),
    }
    """Ways of extracting by name, built from the engines."""
    compare: CompareConfig = CompareConfig()
    limits: LimitsConfig = LimitsConfig()
    cluster: ClusterConfig = ClusterConfig()
    keep_raw: bool = False
    """Keep each engine's own answer in the rows."""
    seed: int = 0
    """Seed of everything random."""

    @field_validator("engines", mode="before")
    @classmethod
    def _kinds(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        return {
            name: {"kind": "gliner" if str(name).startswith("gliner") else "vllm", **it}
            if isinstance(it, dict)
            else {"kind": "gliner" if str(name).startswith("gliner") else "vllm"}
            if it is None
            else it
            for name, it in value.items()
        }

    @field_validator("engines", "methods")
    @classmethod
    def _directory_names(cls, value: dict[str, Any]) -> dict[str, Any]:
        for name in value:
            if not name or not all(c.isalnum() or c in "-_." for c in name) or name.startswith("."):
                raise ValueError(f"the name {name!r}: use letters, digits, `-`, `_` and `.` (it names a directory)")
        return value

    @model_validator(mode="after")
    def _references(self) -> Self:
        if not self.schema_.relation_types and any(method.relations for method in self.methods.values()):
            raise UnknownNameError(
                ("schema", "relation_types"), "there is no type, but there are methods that extract relations"
            )
        for name, method in self.methods.items():
            at = ("methods", name)
            self._need_engine((*at, "entities"), method.entities)
            if method.relations is not None:
                self._need_engine((*at, "relations"), method.relations, llm=True)
            if method.fallback is not None:
                if method.fallback.engine != method.relations:
                    raise UnknownNameError(
                        (*at, "fallback", "engine"), f"must be the engine of `relations`, {method.relations!r}"
                    )
                if not isinstance(self.engines[method.entities], GlinerEngine):
                    raise UnknownNameError((*at, "fallback"), "only GLiNER entities can fall back to an LLM")
        return self

    def _need_engine(self, field: tuple[str, ...], name: str, *, llm: bool = False) -> None:
        if name not in self.engines:
            raise UnknownNameError(
                field, f"no engine is named {name!r}; there are: {', '.join(self.engines) or 'none'}"
            )
        if llm and isinstance(self.engines[name], GlinerEngine):
            raise UnknownNameError(field, f"{name!r} is a GLiNER engine, which finds entities only; name an LLM engine")


def _from_list(value: Any, default: Any) -> Any:
    if not isinstance(value, list):
        return value
    for at, name in enumerate(value):
        if not isinstance(name, str):
            raise ValueError(f"a type is named by a text (it is {name!r})")
        if name in value[:at]:
            raise ValueError(f"{name!r} stands twice")
    return dict.fromkeys(value, default)
