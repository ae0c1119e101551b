"""Other people's files: read, checked, and written."""

from kgscale.formats.common import Converted, Record, Report
from kgscale.formats.convert import READERS, WRITERS, convert, convert_files
from kgscale.formats.gold import Gold, load_gold, prepare_gold, write_gold
from kgscale.formats.guess import guess_format
from kgscale.formats.guide import write_guide_predictions
from kgscale.formats.rundir import import_run

__all__ = [
    "READERS",
    "WRITERS",
    "Converted",
    "Gold",
    "Record",
    "Report",
    "convert",
    "convert_files",
    "guess_format",
    "import_run",
    "load_gold",
    "prepare_gold",
    "write_gold",
    "write_guide_predictions",
]
