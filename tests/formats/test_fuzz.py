"""Damaged files are read or refused; the long way of looking is `make fuzz`."""

from kgscale.formats import READERS, convert
from tests.formats.fuzz import fuzz, write_good


def test_the_sets_that_are_damaged_are_whole_ones(tmp_path):
    write_good(tmp_path / "good")
    for folder in sorted((tmp_path / "good").iterdir()):
        fmt = folder.name.partition("+")[0]
        assert fmt in READERS
        report = convert(folder, tmp_path / "out" / folder.name, fmt)
        assert report.chunks, folder.name
        if fmt != "text":
            assert report.entities, folder.name
            assert not report.skipped, (folder.name, report.problems.first)


def test_damaged_files_are_read_or_refused(tmp_path):
    tally = fuzz(tmp_path, seconds=4, seed=20261130, say=print)
    assert not tally.faults
    assert tally.read
    assert tally.refused
