"""Files of a run, on a local disk or an object store: read whole, written whole or not at all."""

import errno
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from kgscale.errors import UserError, WorkError

TEMPORARY = ".tmp"
"""Suffix of a file that is being written; such a file never counts."""


class Store:
    """A directory that holds a run; names are relative to it, with `/` between parts.

    A local write goes to a temporary name, is flushed to the disk and renamed; on an object store the PUT of one
    object is atomic already. Raises `UserError` for a place that cannot be used, `WorkError` when a write fails.
    """

    def __init__(self, uri: str | Path) -> None:
        text = str(uri)
        if "://" in text:
            try:
                self._fs, root = pafs.FileSystem.from_uri(text)
            except (pa.ArrowException, ValueError, OSError) as error:
                raise UserError(f"cannot open {text}: {error}") from None
            self.local = isinstance(self._fs, pafs.LocalFileSystem)
        else:
            self._fs, root = pafs.LocalFileSystem(), str(Path(text).expanduser().absolute())
            self.local = True
        self._root = PurePosixPath(root)
        self.uri = root if self.local else text.rstrip("/")

    def path(self, name: str) -> str:
        """The full path of a file, as the file system knows it."""
        return str(self._root / name)

    def url(self, name: str) -> str:
        """The full address of a file, as Polars and people can use it."""
        return self.path(name) if self.local else f"{self.uri}/{name}"

    def names(self, folder: str) -> list[str]:
        """The names of the finished files in a folder, sorted; a folder that is not there is empty."""
        selector = pafs.FileSelector(self.path(folder), allow_not_found=True)
        infos = self._fs.get_file_info(selector)
        return sorted(it.base_name for it in infos if it.is_file and not it.base_name.endswith(TEMPORARY))

    def folders(self, folder: str) -> list[str]:
        """The names of the folders in a folder, sorted."""
        selector = pafs.FileSelector(self.path(folder), allow_not_found=True)
        return sorted(it.base_name for it in self._fs.get_file_info(selector) if it.type == pafs.FileType.Directory)

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return bool(self._fs.get_file_info(self.path(name)).is_file)

    def size(self, name: str) -> int:
        """Size of a file in bytes."""
        return int(self._fs.get_file_info(self.path(name)).size)

    def modified_s(self, name: str) -> float:
        """When a file was last written, in seconds since 1970 (UTC)."""
        return float(self._fs.get_file_info(self.path(name)).mtime_ns) / 1e9

    def read(self, name: str) -> bytes:
        """The bytes of a file; raises `FileNotFoundError`."""
        with self._fs.open_input_file(self.path(name)) as file:
            return bytes(file.read())

    def parquet(self, name: str) -> pq.ParquetFile:
        """Open a Parquet file; raises `FileNotFoundError`, or `pyarrow.ArrowInvalid` if it is damaged."""
        return pq.ParquetFile(self._fs.open_input_file(self.path(name)), page_checksum_verification=True)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all."""
        with self._writing(name) as file:
            file.write(data)

    def write_table(self, name: str, table: pa.Table, metadata: dict[str, str] | None = None) -> None:
        """Write a table as one Parquet row group, whole or not at all, with `metadata` as key-value pairs."""
        schema = table.schema.with_metadata({**(table.schema.metadata or {}), **(metadata or {})})
        with self._writing(name) as file, _writer(file, schema) as writer:
            writer.write_table(table.cast(schema), row_group_size=max(1, table.num_rows))

    @contextmanager
    def table_writer(self, name: str, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
        """A writer for a Parquet file of many row groups; the file appears when the block ends without an error."""
        with self._writing(name) as file, _writer(file, schema) as writer:
            yield writer

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self.exists(name):
            self._fs.delete_file(self.path(name))

    def clean(self, folder: str) -> int:
        """Remove what killed writers left behind in a folder; returns how many files that were."""
        selector = pafs.FileSelector(self.path(folder), allow_not_found=True)
        left = [it.path for it in self._fs.get_file_info(selector) if it.base_name.endswith(TEMPORARY)]
        for path in left:
            self._fs.delete_file(path)
        return len(left)

    @contextmanager
    def _writing(self, name: str) -> Iterator[Any]:
        target = self.path(name)
        try:
            if self.local:
                yield from self._writing_local(Path(target))
            else:
                # Closing a half-written stream would publish it: nothing is sent before all of it is there.
                with tempfile.TemporaryFile() as file:
                    yield file
                    file.seek(0)
                    with self._fs.open_output_stream(target) as stream:
                        shutil.copyfileobj(file, stream)
        except OSError as error:
            raise _write_error(error, target) from error

    def _writing_local(self, target: Path) -> Iterator[Any]:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY}")
        try:
            with temporary.open("wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(target)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        # The rename itself must reach the disk too, or a power cut could undo a commit that was reported.
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


def _writer(file: Any, schema: pa.Schema) -> pq.ParquetWriter:
    """Pages carry checksums, so that a byte that flips on the disk is found when it is read."""
    return pq.ParquetWriter(file, schema, compression="zstd", write_page_checksum=True)


def _write_error(error: OSError, target: str) -> WorkError:
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return WorkError("the disk is full", where=target, hint="free some space and run the command again")
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return WorkError(
                "not allowed to write here", where=target, hint="choose another run directory, or change its rights"
            )
        case _:
            return WorkError(f"cannot write: {error}", where=target)
