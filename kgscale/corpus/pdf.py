"""The text of a PDF, by pypdf: an extra, since most corpora have none."""

import importlib.util
import logging
from pathlib import Path

from kgscale.errors import UserError


def can_read_pdf() -> bool:
    """Whether pypdf is installed."""
    return importlib.util.find_spec("pypdf") is not None


def pdf_to_text(path: Path, name: str) -> str:
    """The text of a PDF, its pages as paragraphs; a scan has none. No script in it is run, and nothing is fetched.

    Raises `UserError` if pypdf is missing, or if the file is encrypted or damaged.
    """
    if not can_read_pdf():
        raise UserError("a PDF needs pypdf", where=name, hint="pip install 'kgscale[pdf]'")
    from pypdf import PdfReader

    logging.getLogger("pypdf").setLevel(logging.CRITICAL)  # it tells of each small fault that it mends
    try:
        reader = PdfReader(path)
        if reader.is_encrypted and not reader.decrypt(""):
            raise UserError("is encrypted", where=name)
        return "\n\n".join(page.extract_text().strip() for page in reader.pages)
    except UserError:
        raise
    except Exception as error:  # noqa: BLE001  damaged files make pypdf raise nearly anything
        raise UserError(f"cannot be read as a PDF: {type(error).__name__}: {error}"[:300], where=name) from None
