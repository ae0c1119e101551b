"""Plain corpora: HTML, Markdown, reStructuredText, text, PDF, or rows of texts; cut into chunks, without annotation."""

from collections.abc import Iterator
from pathlib import Path

from kgscale.config import CorpusConfig
from kgscale.corpus.notices import Faults, Notices
from kgscale.corpus.prepare import chunks_of, read_corpus
from kgscale.formats.common import Converted, Record, Report, converted
from kgscale.records import GoldChunk


def read_text_corpus(path: Path) -> Converted:
    """The chunks of a corpus, as a run with the default chunk size would have them; what has a `chunk_id` stays whole.

    A document that cannot be read is left out and told.
    """
    report = Report()
    faults, notices = Faults(), Notices()
    report.problems = notices

    def records() -> Iterator[Record]:
        for chunk in chunks_of(read_corpus(path, faults, notices), CorpusConfig(path=str(path))):
            gold = GoldChunk(chunk.chunk_id, [], [], text=chunk.text)
            yield Record(chunk.doc_id, chunk.text, gold, annotated=False)
        for fault in faults.first:
            report.skip(fault.where, "left out a document", fault.message)
        report.skipped += faults.total - len(faults.first)

    return converted(path, records(), report)
