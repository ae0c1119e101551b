"""Documents out of a directory or a file, one at a time; what is wrong is collected, so that all of it can be told."""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from kgscale.corpus.files import clean, read_bytes, read_text
from kgscale.corpus.html import html_to_text
from kgscale.corpus.notices import Faults, Notices
from kgscale.corpus.pdf import can_read_pdf, pdf_to_text
from kgscale.errors import UserError

EMPTY = "has no text, and is left out"
CONTROLS = "has control characters, each read as a space"
HIDDEN = "is hidden, and is left out"
UNKNOWN = "has no suffix that kgscale reads, and is left out"
NO_PDF = "is a PDF, which needs `pip install 'kgscale[pdf]'`, and is left out"


@dataclass(frozen=True, slots=True)
class Document:
    """A text to be cut; or, if it has a `chunk_id`, a chunk that is taken as it is."""

    doc_id: str
    text: str
    source: str
    chunk_id: str | None = None


def _plain(path: Path, name: str) -> str:
    return read_text(path, name)


def _html(path: Path, name: str) -> str:
    return html_to_text(read_bytes(path, name), name)


TEXT_READERS: dict[str, Callable[[Path, str], str]] = {
    ".md": _plain,
    ".txt": _plain,
    ".rst": _plain,
    ".html": _html,
    ".htm": _html,
    ".pdf": pdf_to_text,
}
"""How a document is read, by the suffix of its file."""


def read_directory(root: Path, faults: Faults, notices: Notices) -> Iterator[Document]:
    """The documents below a directory, in the order of their names; files in a directory come before its folders.

    The `doc_id` is the path below `root`, with `/` between its parts. Links to directories are not followed.
    """
    for folder, folders, names in os.walk(root, onerror=lambda error: _add_unreadable(error, faults)):
        hidden = sorted(name for name in folders if name.startswith("."))
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        here = Path(folder)
        for name in hidden:
            notices.add(str(here / name), HIDDEN)
        for name in sorted(names):
            path = here / name
            if name.startswith("."):
                notices.add(str(path), HIDDEN)
            elif path.suffix.lower() not in TEXT_READERS:
                notices.add(str(path), UNKNOWN)
            elif path.suffix.lower() == ".pdf" and not can_read_pdf():
                notices.add(str(path), NO_PDF)
            elif document := read_document(path, path.relative_to(root).as_posix(), faults, notices):
                yield document


def read_document(path: Path, doc_id: str, faults: Faults, notices: Notices) -> Document | None:
    """The document of a file, if it can be read and has text."""
    name = str(path)
    try:
        doc_id.encode()
        if not path.is_file():
            raise UserError("is no file (a broken link, or a device)", where=name)
        text, controls = clean(TEXT_READERS[path.suffix.lower()](path, name))
    except UnicodeEncodeError:
        faults.add(name, "its name is not UTF-8")
        return None
    except UserError as error:
        faults.add_error(error)
        return None
    if controls:
        notices.add(name, CONTROLS, f"{controls:,}")
    if not text.strip():
        notices.add(name, EMPTY)
        return None
    return Document(doc_id, text, name)


def _add_unreadable(error: OSError, faults: Faults) -> None:
    faults.add(str(error.filename), f"cannot be read: {error.strerror or error}")
