"""Gold to be reviewed by people, and back: a page that works offline, or tasks for Label Studio."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from hashlib import sha256
from pathlib import Path

import jinja2
from markupsafe import Markup

from kgscale.config import SchemaConfig
from kgscale.errors import UserError
from kgscale.formats.common import Record, Report
from kgscale.formats.guide import gold_object, write_guide_gold
from kgscale.formats.labelstudio import config_of, read_label_studio, write_label_studio
from kgscale.formats.output import whole_file
from kgscale.gold.sets import Say, read_set, refuse_overwriting
from kgscale.gold.words import Lang, words
from kgscale.records import GoldChunk, Origin

_HERE = Path(__file__).parent


class Tool(StrEnum):
    """With what people review."""

    HTML = "html"
    """One file that opens in any browser, offline."""
    LABEL_STUDIO = "label-studio"
    """Tasks to import, and the labelling config beside them."""


@dataclass(frozen=True, slots=True)
class Reviewed:
    """What came back of the chunks that were sent for review."""

    chunks: int
    unreviewed: int
    """Chunks that nobody has decided on, or that were skipped; they are left out."""


def write_review(gold: Path, out: Path, tool: Tool, schema: SchemaConfig | None, say: Say, *, lang: Lang = "en") -> int:
    """Write a gold set, or a sample without annotation, for people to work on; returns the number of chunks.

    The types offered are those of the schema, then others that the set uses; without a schema those that the set uses,
    or the default schema's if it uses none. `lang` is the page's language. Raises `UserError` if a file would be
    written over.
    """
    refuse_overwriting(out)
    records = read_set(gold, say)
    chunks = [it.gold for it in records]
    used = (
        [it.type for chunk in chunks for it in chunk.entities],
        [it.type for chunk in chunks for it in chunk.relations],
    )
    if schema is None and not any(used):
        schema = SchemaConfig()
    entity_types = _types(schema.entity_types if schema else (), used[0])
    relation_types = _types(schema.relation_types if schema else (), used[1])
    if tool is Tool.HTML:
        _write_page(records, entity_types, relation_types, out, lang)
        return len(records)
    if config_of(out) == out:
        raise UserError(f"{out} is where the labelling config would stand", hint="name a file that ends in .json")
    refuse_overwriting(config_of(out))
    report = Report()
    write_label_studio(records, out, report, (entity_types, relation_types))
    for problem in report.problems.first:
        say(str(problem))
    return len(records)


def take_reviewed(gold: Path, export: Path, out: Path, say: Say) -> Reviewed:
    """Turn Label Studio's export (JSON) of what `write_review` wrote into a gold set.

    Every chunk that was annotated is `reviewed` if it had been annotated before, else `manual`; it keeps its annotator
    and prompt. Raises `UserError` where nothing was reviewed, or the export holds other chunks or texts.
    """
    refuse_overwriting(out)
    sent = {it.gold.chunk_id: it for it in read_set(gold, say)}
    found = read_label_studio(export)
    records = [it for it in found.records if it.annotated and it.gold.origin is not Origin.PSEUDO]
    for problem in found.report.problems.first:
        say(str(problem))
    back = [_back(it, sent, str(export)) for it in records]
    if not back:
        raise UserError("nobody has annotated anything in it", where=str(export))
    write_guide_gold(out, back)
    return Reviewed(len(back), len(sent) - len(back))


def _back(record: Record, sent: dict[str, Record], where: str) -> Record:
    chunk = record.gold
    before = sent.get(chunk.chunk_id)
    if before is None:
        hint = "name the file that was sent for review, and an export that has `data.chunk_id`"
        raise UserError(f"the chunk {chunk.chunk_id!r} was not sent for review", where=where, hint=hint)
    if before.text != record.text:
        raise UserError(f"the text of {chunk.chunk_id!r} is another one than was sent for review", where=where)
    origin = Origin.REVIEWED if before.annotated else Origin.MANUAL
    aliases = {it.text: it.aliases for it in before.gold.entities if it.aliases}
    entities = [replace(it, aliases=aliases.get(it.text, [])) for it in chunk.entities]
    made = replace(before.gold, entities=entities, relations=chunk.relations, origin=origin, text=record.text)
    return Record(before.doc_id, record.text, made)


def _types(declared: Iterable[str], used: Iterable[str]) -> list[str]:
    return [it for it in dict.fromkeys([*declared, *used]) if it]


def _write_page(
    records: Sequence[Record], entity_types: Sequence[str], relation_types: Sequence[str], out: Path, lang: Lang
) -> None:
    chunks = [gold_object(replace(it, gold=_decided(it))) for it in records]
    schema = {"entity_types": entity_types, "relation_types": relation_types}
    told = json.dumps({"schema": schema, "chunks": chunks}, ensure_ascii=False, sort_keys=True)
    t = words(lang)
    digest = sha256(told.encode()).hexdigest()[:16]
    data = {"schema": schema, "chunks": chunks, "digest": digest, "words": t}
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined)
    template = environment.from_string((_HERE / "page.html.jinja").read_text(encoding="utf-8"))
    # Within a script element only `<` could end it; as \u003c it is the same JSON.
    safe = json.dumps(data, ensure_ascii=False).replace("<", "\\u003c")
    parts = {name: Markup((_HERE / f"page.{name}").read_text(encoding="utf-8")) for name in ("css", "js")}  # noqa: S704
    data_safe = Markup(safe)  # noqa: S704
    page = template.render(lang=lang, t=t, data=data_safe, style=parts["css"], script=parts["js"])
    with whole_file(out) as file:
        file.write(page + "\n")


def _decided(record: Record) -> GoldChunk:
    """The chunk as it will be once someone has accepted it."""
    return replace(record.gold, origin=Origin.REVIEWED if record.annotated else Origin.MANUAL)
