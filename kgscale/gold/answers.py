"""The answers of annotators as they come in: one line each, so that nothing that was paid for is lost."""

import fcntl
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from hashlib import sha256
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from kgscale.errors import UserError, WorkError
from kgscale.gold.sets import Say
from kgscale.records import Status

SUFFIX = ".answers.jsonl"
Key = tuple[str, str, str, str]
"""Chunk id, hash of the text, model, hash of the prompt: what an answer is to."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one annotator said of one text, and what that took."""

    chunk_id: str
    text_sha256: str
    model: str
    prompt: str
    status: Status
    error: str | None = None
    entities: list[tuple[str, str]] = field(default_factory=list)
    """Name and type."""
    relations: list[tuple[str, str, str]] = field(default_factory=list)
    """Source, type, target."""
    prompt_tokens: int = 0
    output_tokens: int = 0
    tries: int = 1

    @property
    def key(self) -> Key:
        """What the answer is to: another text, model or prompt is another question."""
        return self.chunk_id, self.text_sha256, self.model, self.prompt


_ANSWER = TypeAdapter(Answer)


def text_hash(text: str) -> str:
    """The hash by which an answer knows its text."""
    return sha256(text.encode()).hexdigest()


@dataclass
class Answers:
    """The answers to one gold file, in a file beside it; an answer is there whole or not at all."""

    path: Path
    all: list[Answer]
    _descriptor: int

    def add(self, answer: Answer) -> None:
        """Write one answer at the end of the file, in one piece; raises `WorkError` if it cannot be written."""
        line = json.dumps(asdict(answer), ensure_ascii=False).encode() + b"\n"
        before = os.fstat(self._descriptor).st_size
        try:
            if os.write(self._descriptor, line) != len(line):
                raise OSError("the disk is full")
            os.fsync(self._descriptor)
        except OSError as error:
            # A full disk may have taken a part; another answer that is on its way must not be glued to it.
            os.ftruncate(self._descriptor, before)
            raise WorkError(f"cannot write: {error.strerror or error}", where=str(self.path)) from None
        self.all.append(answer)

    def good(self) -> dict[Key, Answer]:
        """The usable answers, by what they are to."""
        return {it.key: it for it in self.all if it.status is Status.OK}


@contextmanager
def open_answers(gold: Path, say: Say) -> Iterator[Answers]:
    """The answers beside a gold file, for one process at a time; raises `UserError` if another one is at work."""
    path = gold.with_name(gold.name + SUFFIX)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    except OSError as error:
        raise WorkError(f"cannot write: {error.strerror or error}", where=str(path)) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise UserError("another process is annotating into this file", where=str(path)) from None
        whole = path.read_bytes()
        kept = whole[: whole.rfind(b"\n") + 1]
        if kept != whole:
            os.truncate(descriptor, len(kept))
            say(f"{path}: the last answer is cut off, and is asked for again")
        yield Answers(path, list(_read(kept, path, say)), descriptor)
    finally:
        os.close(descriptor)


def _read(data: bytes, path: Path, say: Say) -> Iterator[Answer]:
    for number, line in enumerate(data.splitlines(), start=1):
        try:
            yield _ANSWER.validate_json(line)
        except ValidationError:
            say(f"{path}:{number}: is no answer, and is asked for again")
