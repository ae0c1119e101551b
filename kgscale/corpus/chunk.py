"""Documents cut into chunks of a bounded size, on borders of headings and sentences, with ids that last."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b

from kgscale.config import ChunkConfig
from kgscale.corpus.segment import Piece, lines_of, pieces
from kgscale.errors import UserError
from kgscale.text import split_words


class Ruler:
    """Measures one document: `starts` are the offsets of what is counted, `borders` those where a word begins."""

    def __init__(self, starts: Sequence[int], borders: Sequence[int]) -> None:
        self._starts = starts
        self._borders = borders

    def count(self, start: int, end: int) -> int:
        """The size of a stretch of the document."""
        return bisect_left(self._starts, end) - bisect_left(self._starts, start)

    def parts(self, start: int, end: int, limit: int) -> Iterator[Piece]:
        """A stretch in parts of at most `limit`, cut between words; inside one only where it alone is longer."""
        while self.count(start, end) > limit:
            beyond = self._starts[bisect_left(self._starts, start) + limit]
            stop = self._borders[bisect_right(self._borders, beyond) - 1]
            if stop <= start:
                stop = beyond
            if stop <= start:
                # Tokens may be parts of one character, which cannot be cut.
                stop = next(iter(self._starts[bisect_right(self._starts, start) :][:1]), end)
            if stop >= end:
                break
            yield Piece(start, stop)
            start = stop
        yield Piece(start, end)


Measure = Callable[[str], Ruler]


def in_words(text: str) -> Ruler:
    """Measure a document in words."""
    starts = _word_starts(text)
    return Ruler(starts, starts)


def _word_starts(text: str) -> list[int]:
    return [start for _, start, _ in split_words(text)]


def in_tokens(name: str) -> Measure:
    """A measure in tokens of a model's tokenizer; raises `UserError` if there is no such tokenizer, or no fast one.

    Tokens are counted in the whole document, so that a chunk for itself may have a few more or less.
    """
    from transformers import AutoTokenizer

    where = "corpus.chunk.tokenizer"
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise UserError(f"cannot load the tokenizer {name!r}: {error}", where=where) from None
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if backend is None:
        raise UserError(f"{name!r} has no fast tokenizer, which is needed to know where tokens begin", where=where)

    def measure(text: str) -> Ruler:
        offsets = backend.encode(text, add_special_tokens=False).offsets
        # Some tokenizers count the space before a word to its token.
        starts = [end - len(text[start:end].lstrip()) for start, end in offsets if end > start]
        return Ruler(sorted(starts), _word_starts(text))

    return measure


@dataclass(frozen=True, slots=True)
class _Unit:
    piece: Piece
    size: int


def cut(text: str, size: int, overlap: int, measure: Measure = in_words) -> Iterator[tuple[int, int]]:
    """Cut a document; yields the start and end (exclusive) of each chunk in it.

    No chunk is larger than `size`, and every visible character is in at least one. Borders stand between sentences,
    unless one alone is larger than `size`: that is cut between its lines, and a line between its words. A heading stays
    with what follows; where a chunk is half full, it begins the next one, without overlap. Otherwise a chunk starts
    with as many whole sentences of the one before as `overlap` holds.
    """
    for units in _pack(_units(text, measure(text), size, overlap), size, overlap):
        start, end = units[0].piece.start, units[-1].piece.end
        yield start, start + len(text[start:end].rstrip())


def _units(text: str, ruler: Ruler, size: int, overlap: int) -> Iterator[_Unit]:
    for piece in pieces(text):
        whole = ruler.count(piece.start, piece.end)
        if whole <= size:
            yield _Unit(piece, whole)
            continue
        for line in lines_of(text, piece):
            fits = ruler.count(line.start, line.end) <= size
            # Parts as small as the overlap, so that neighbouring chunks can share one.
            for part in [line] if fits else ruler.parts(line.start, line.end, overlap or size):
                yield _Unit(part, ruler.count(part.start, part.end))


def _pack(units: Iterable[_Unit], size: int, overlap: int) -> Iterator[list[_Unit]]:
    chunk: list[_Unit] = []
    shared = 0  # how many at its front stand in the chunk before, too
    for unit in units:
        new_section = unit.piece.heading and 2 * _size(chunk) >= size
        while len(chunk) > shared and (new_section or _size(chunk) + unit.size > size):
            kept, headings = _without_last_headings(chunk, shared)
            yield kept
            carried = [] if headings or new_section else _tail(kept, overlap)
            chunk, shared = carried + headings, len(carried)
            new_section = False
        while shared and _size(chunk) + unit.size > size:
            chunk, shared = chunk[1:], shared - 1
        chunk.append(unit)
    if len(chunk) > shared:
        yield chunk


def _size(units: list[_Unit]) -> int:
    return sum(unit.size for unit in units)


def _without_last_headings(chunk: list[_Unit], shared: int) -> tuple[list[_Unit], list[_Unit]]:
    """Part the headings at a chunk's end from it, unless nothing new would be left."""
    stop = len(chunk)
    while stop > shared and chunk[stop - 1].piece.heading:
        stop -= 1
    return (chunk[:stop], chunk[stop:]) if stop > shared else (chunk, [])


def _tail(chunk: list[_Unit], overlap: int) -> list[_Unit]:
    start = len(chunk)
    while start > 0 and _size(chunk[start - 1 :]) <= overlap:
        start -= 1
    return chunk[start:]


def measure_of(config: ChunkConfig) -> Measure:
    """The measure that a config asks for."""
    return in_tokens(config.tokenizer) if config.tokenizer is not None else in_words


def chunk_ids(doc_id: str, texts: Iterable[str]) -> Iterator[str]:
    """Ids for the chunks of a document, from what they are and not from how many come before.

    An id is the readable end of the `doc_id` and the first 16 hexadecimal digits of BLAKE2b over `doc_id`, chunk text
    and the occurrence number of that text in the document (1, unless the document repeats itself). Other documents have
    no part in it; an edit changes only the ids of the chunks whose text it changes.
    """
    prefix = re.sub(r"[^\w.]+", "-", doc_id).strip("-")[-48:]
    seen: Counter[bytes] = Counter()
    for text in texts:
        digest = blake2b(text.encode(), digest_size=16).digest()
        seen[digest] += 1
        whole = blake2b(b"\0".join((doc_id.encode(), digest, str(seen[digest]).encode())), digest_size=8)
        yield f"{prefix}-{whole.hexdigest()}"
