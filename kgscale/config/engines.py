"""The models and how they are run."""

import re
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, field_validator

from kgscale.config.section import NonNegative, Positive, Section, Share


class GlinerEngine(Section):
    """GLiNER, a small encoder that finds entities; some models find relations between them too."""

    kind: Literal["gliner"] = "gliner"
    model: str = "gliner-minilm"
    """A model that kgscale prepares (`kgscale models list`), a Hugging Face id, or a directory."""
    revision: str | None = None
    """Revision of a Hugging Face id."""
    threshold: Share | None = None
    """Lowest score of an entity; by default the one stored with the model, else 0.5."""
    relation_threshold: Share | None = None
    """Lowest score of a relation, for a model that finds them; by default the one stored with the model, else 0.5."""
    dtype: Literal["auto", "float32", "bfloat16", "float16"] = "auto"
    """Floating-point type to compute in; by default bfloat16 where the machine multiplies in it, else float32. In
    bfloat16 an entity whose score is just at the threshold may depend on what else is in its batch."""
    batch_tokens: Positive | None = None
    """Padded word pieces in one batch; by default 4,096 on a CPU and 65,536 on a GPU."""
    window_overlap: NonNegative = 48
    """Words that neighbouring windows of a long chunk share."""
    labels: dict[str, str] = {}
    """Other wording of a type for this model, for example `organization: company or institution`; relation types are
    asked for with spaces for underscores."""


def without_secrets(fields: dict[str, Any]) -> dict[str, Any]:
    """The fields, if none holds a key or a password: what is in the config is in `run.json` and in reports."""
    for name, value in fields.items():
        words = re.split(r"[^a-z]+", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower())
        if isinstance(value, str) and value and (_SECRET & set(words) or words[-1] in ("key", "token")):
            raise ValueError(
                f"`{name}` looks like a secret, and the config is kept in the run: use an environment variable"
            )
        if isinstance(value, dict):
            without_secrets(value)
    return fields


_SECRET = {"authorization", "password", "passwd", "secret", "credential", "credentials", "apikey"}


class _LlmEngine(Section):
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
    max_chunk_tokens: Annotated[int, Field(ge=32)] | None = None
    """Longer chunks are cut between sentences into windows of so many tokens, 32 at least; by default only where
    `max_model_len` makes it necessary. A small model finds more in a short text."""
    max_num_seqs: Positive | None = None
    """Chunks in the engine at once; by default 16 on a CPU and 512 on a GPU."""
    kv_cache_gib: Annotated[float, Field(gt=0)] | None = None
    """Memory for the KV cache; by default 1 GiB on a CPU, and what the GPU has left on a GPU."""
    dtype: Literal["auto", "bfloat16", "float16", "float32"] = "auto"
    """Number format of the weights; `auto` is the model's own."""
    trust_remote_code: bool = False
    """Run code that comes with the model; leave it off unless you have read that code."""
    engine_args: Annotated[dict[str, Any], AfterValidator(without_secrets)] = {}
    """Anything else for vLLM's engine, by vLLM's own names."""


class OpenAIEngine(_LlmEngine):
    """A language model behind any OpenAI-compatible HTTP endpoint."""

    kind: Literal["openai"] = "openai"
    model: str
    """The name that the endpoint knows."""
    base_url: str = "https://api.openai.com/v1"
    """The endpoint, for example `http://localhost:11434/v1`."""
    api_key_env: str | None = "OPENAI_API_KEY"
    """Environment variable that holds the key; null where none is needed. The key itself is never stored.

    On a cluster each node must have it before `ray start`: a job's runtime environment is shown in Ray's dashboard.
    """
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
    request: Annotated[dict[str, Any], AfterValidator(without_secrets)] = {}
    """Other fields of each request by the endpoint's own names; null leaves one out, such as `temperature: null`."""
    max_chunk_words: Positive = 3000
    """Longer chunks are cut between sentences into windows of this size."""

    @field_validator("base_url")
    @classmethod
    def _no_secret_in_the_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError(
                "an address alone, without user, password or `?`: name the key's variable in `api_key_env`"
            )
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError("an address that begins with http:// or https://")
        return value

    @field_validator("api_key_env")
    @classmethod
    def _name_of_a_variable(cls, value: str | None) -> str | None:
        if value is not None and not re.fullmatch("[A-Za-z_][A-Za-z0-9_]*", value):
            raise ValueError(
                "the name of an environment variable, such as OPENAI_API_KEY; the key itself has no place here"
            )
        return value


Engine = Annotated[GlinerEngine | VllmEngine | OpenAIEngine, Field(discriminator="kind")]
LlmEngine = VllmEngine | OpenAIEngine
ENGINE_KINDS: dict[str, type[GlinerEngine | VllmEngine | OpenAIEngine]] = {
    "gliner": GlinerEngine,
    "vllm": VllmEngine,
    "openai": OpenAIEngine,
}
