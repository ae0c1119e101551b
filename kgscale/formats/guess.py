"""Which format a file or directory has, where its content makes that clear."""

import re
from pathlib import Path
from typing import Any

from kgscale.errors import UserError
from kgscale.formats.brat import partner
from kgscale.formats.common import SHOWN, UTF16, forbid_missing
from kgscale.formats.graphrag import OLD, UNITS
from kgscale.formats.jsonfile import json_items
from kgscale.formats.lightrag import CHUNKS, CUSTOM
from kgscale.formats.re3d import DOCUMENTS
from kgscale.runs import EXTRACTIONS, RUN_FILE

_KEYS: dict[str, set[str]] = {
    "label-studio": {"data", "annotations"},
    "gliner": {"tokenized_text"},
    "gliner2": {"input", "output"},
    "docred": {"sents", "vertexSet"},
    "spert": {"tokens", "entities", "relations"},
    "crossre": {"sentence", "ner"},
    "scierc": {"sentences", "doc_key"},
    "tekgen": {"sent", "triples"},
}
_GUIDE_KEYS = {"ground_truth_entities", "ground_truth_relations", "entities", "relations"}
_TEXT_SUFFIXES = {".md", ".rst", ".html", ".htm", ".pdf"}
_ABOUT = {"README", "LICENSE", "LICENCE", "SOURCE"}
_PACKED = (b"\x1f\x8b", b"PK\x03\x04")
_PUBTATOR = re.compile(rb"\S+\|[ta]\|")
_CONLL = re.compile(rb"\S+([\t ]\S+)*[\t ](O|[BIESLUMW]-\S+)\s+")


def guess_format(path: Path) -> str:
    """The name of the format; raises `UserError` that says what it might be if that is not clear."""
    forbid_missing(path)
    reasons: list[str] = []
    found = _of_directory(path, reasons) if path.is_dir() else _of_file(path, reasons)
    if len(found) == 1:
        return found.pop()
    if not found:
        told = "\n".join([f"it is not clear which format {path} has", *(f"  {it}" for it in reasons[:SHOWN])])
        raise UserError(told, hint="name it: --from")
    raise UserError(f"{path} may be {' or '.join(sorted(found))}", hint="name the format: --from")


def _of_directory(path: Path, reasons: list[str]) -> set[str]:
    if (path / RUN_FILE).is_file() or path.parent.name == EXTRACTIONS:
        return {"run"}
    marks = {
        "lightrag": (CHUNKS, CUSTOM),
        "graphrag": (UNITS, f"{OLD}{UNITS}"),
        "re3d": (DOCUMENTS,),
        "brat": ("*.ann",),
        "docbin": ("*.spacy",),
    }
    found = {name for name, patterns in marks.items() if any(next(path.rglob(it), None) for it in patterns)}
    if found:
        return found
    documents = False
    for file in sorted(path.rglob("*")):
        about = file.name.startswith(".") or file.stem.upper().split(".")[0] in _ABOUT
        if file.is_file() and not about:
            found |= _of_file(file, reasons)
            documents |= file.suffix.lower() in _TEXT_SUFFIXES
    # Lists and notes lie beside many an annotated set; pages of HTML or Markdown do not.
    return found - {"text"} if len(found) == 2 and not documents else found


def _of_file(path: Path, reasons: list[str]) -> set[str]:
    """What a file may be; where it cannot be read, that goes to the reasons why nothing is found."""
    suffix = path.suffix.lower()
    if suffix == ".spacy":
        return {"docbin"}
    if suffix in _TEXT_SUFFIXES:
        return {"text"}
    if suffix in (".ann", ".txt") and partner(path).is_file():
        return {"brat"}
    try:
        with path.open("rb") as file:
            start = file.read(2**16)
    except OSError as error:
        reasons.append(f"{path}: cannot be read: {error.strerror or error}")
        return set()
    if not start:
        reasons.append(f"{path}: is empty")
    elif suffix in (".json", ".jsonl"):
        return _of_json(path, reasons)
    elif start.startswith(_PACKED):
        reasons.append(f"{path}: is packed; unpack it first")
    elif start.startswith(UTF16):
        reasons.append(f"{path}: is not UTF-8")
    if _PUBTATOR.match(start):
        return {"pubtator"}
    lines = [line for line in start.splitlines(keepends=True)[:-1] if line.strip() and b"-DOCSTART-" not in line]
    if lines and all(_CONLL.fullmatch(line) for line in lines[:50]):
        return {"conll"}
    return {"text"} if suffix in (".txt", ".parquet") else set()


def _of_json(path: Path, reasons: list[str]) -> set[str]:
    first: Any = None
    refused: list[UserError] = []
    for key in (None, "chunks"):
        try:
            _, first = next(json_items(path, key), ("", None))
        except UserError as error:
            refused.append(error)
            continue
        if isinstance(first, dict) and not isinstance(first.get("chunks"), list):
            break
    if not isinstance(first, dict):
        reasons.extend(map(str, [first] if isinstance(first, UserError) else refused[:1]))
        return set()
    keys = set(first)
    if path.name == CUSTOM and "source_id" in keys:
        return {"lightrag"}
    if isinstance(first.get("data"), dict) and {"predictions", "annotations", "completions", "id"} & keys:
        return {"label-studio"}
    found = {name for name, wanted in _KEYS.items() if wanted <= keys}
    if not found and {"chunk_id", "id"} & keys and _GUIDE_KEYS & keys:
        return {"guide"}
    return found or ({"text"} if "text" in keys else set())
