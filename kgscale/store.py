"""Files of a run, on a local disk or an object store: read whole, written whole or not at all."""

import errno
import os
import re
import secrets
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from kgscale.errors import UserError, WorkError
from kgscale.seal import SEAL, UNSEALED, is_sealed, seal

TEMPORARY = ".tmp"
"""Suffix of a file that is being written; such a file never counts."""


REMOTE_READERS = 32
CLIENT_OPTIONS: Any = {"allow_http": True}
"""A test server, or a MinIO in one's own network, may speak plain HTTP; its endpoint says so."""
RETRIES: Any = {"max_retries": 5}
PAUSES_S = (0.5, 2.0, 8.0)
"""Waits before a read or write is tried again: a store that is gone for longer ends the job."""

T = TypeVar("T")
R = TypeVar("R")


MEND = "`kgscale verify --repair` sets damaged files aside; `kgscale extract` then does only their rows anew"


class StoreError(WorkError):
    """A file could not be read or written; trying again may help."""


def patiently(do: Callable[[], R], pauses_s: Sequence[float] = PAUSES_S) -> R:
    """What `do` returns; a `StoreError` is waited out and raised only when the last try fails too."""
    for pause_s in pauses_s:
        try:
            return do()
        except StoreError:
            time.sleep(pause_s)
    return do()


class Store:
    """A directory that holds a run; names are relative to it, with `/` between parts.

    A local write goes to a temporary name, is flushed to the disk and renamed; on an object store an object appears
    when all of it is there. Raises `UserError` for a place that cannot be used, `WorkError` when a write fails.
    """

    def __init__(self, uri: str | Path) -> None:
        text = str(uri)
        if "://" in text:
            if "?" in text or re.match(r"[^/]+://[^/]*:[^/]*@", text):
                raise UserError(
                    "the address of a run holds no settings and no keys: it is written into logs and run.json",
                    hint="set AWS_ENDPOINT_URL, AWS_REGION and the credentials in the environment of every node",
                )
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
        infos = self._listed(folder)
        return sorted(it.base_name for it in infos if it.is_file and not it.base_name.endswith(TEMPORARY))

    def folders(self, folder: str) -> list[str]:
        """The names of the folders in a folder, sorted."""
        return sorted(it.base_name for it in self._listed(folder) if it.type == pafs.FileType.Directory)

    def exists(self, name: str) -> bool:
        """Whether there is a file of this name."""
        return bool(self._info(name).is_file)

    def size(self, name: str) -> int:
        """Size of a file in bytes."""
        return int(self._info(name).size)

    def modified_s(self, name: str) -> float:
        """When a file was last written, in seconds since 1970 (UTC); 0 for one that is not there any more."""
        return float(self._info(name).mtime_ns or 0) / 1e9

    def _listed(self, folder: str) -> Any:
        with self._reaching(folder):
            return self._fs.get_file_info(pafs.FileSelector(self.path(folder), allow_not_found=True))

    def _info(self, name: str) -> Any:
        with self._reaching(name):
            return self._fs.get_file_info(self.path(name))

    def read(self, name: str) -> bytes:
        """The bytes of a file; raises `FileNotFoundError`."""
        with self._fs.open_input_file(self.path(name)) as file:
            return bytes(file.read())

    def parquet(self, name: str, *, metadata: Any = None) -> pq.ParquetFile:
        """Open a Parquet file; raises `FileNotFoundError`, or `pyarrow.ArrowInvalid` if it is damaged.

        `metadata` is that of the same file where it is known, which saves reading a large one again.
        """
        file = self._fs.open_input_file(self.path(name))
        try:
            return pq.ParquetFile(file, metadata=metadata, page_checksum_verification=True)
        except UnicodeDecodeError as error:
            raise pa.ArrowInvalid(f"a name in its footer is damaged: {error}") from None

    def is_sealed(self, name: str) -> bool:
        """Whether a Parquet file is, byte for byte, the one that was written; raises `FileNotFoundError`."""
        with self._fs.open_input_file(self.path(name)) as file:
            return is_sealed(file)

    def tail(self, name: str, size: int) -> bytes:
        """The last `size` bytes of a file, or all of a smaller one; raises `FileNotFoundError`."""
        if self.local:
            # Plain calls: a resume makes a hundred thousand of them.
            file = os.open(f"{self._root}/{name}", os.O_RDONLY)
            try:
                return os.pread(file, size, max(0, os.fstat(file).st_size - size))
            finally:
                os.close(file)
        with self._fs.open_input_file(self.path(name)) as remote:
            remote.seek(max(0, remote.size() - size))
            return bytes(remote.read())

    def each(self, look: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
        """What `look` says of each item, in order; many at once on an object store, where each look is a journey."""
        if self.local:
            yield from map(look, items)
            return
        with ThreadPoolExecutor(REMOTE_READERS) as pool:
            yield from pool.map(look, items)

    def write(self, name: str, data: bytes) -> None:
        """Write a file, whole or not at all."""
        with self._writing(name) as file:
            file.write(data)

    def write_table(self, name: str, table: pa.Table, metadata: dict[str, str] | None = None) -> None:
        """Write a table as one Parquet row group, whole or not at all, with `metadata` as key-value pairs."""
        # Arrow gives keys as bytes: as text they would stand beside those that the table has, not in their place.
        pairs = {key.encode(): value.encode() for key, value in (metadata or {}).items()}
        schema = table.schema.with_metadata({**(table.schema.metadata or {}), **pairs})
        with self.table_writer(name, schema) as writer:
            writer.write_table(table.cast(schema), row_group_size=max(1, table.num_rows))

    @contextmanager
    def table_writer(self, name: str, schema: pa.Schema) -> Iterator[pq.ParquetWriter]:
        """A writer for a Parquet file of many row groups; the file appears when the block ends without an error."""
        with self._writing(name) as file:
            with _writer(file, schema) as writer:
                yield writer
                writer.add_key_value_metadata({SEAL: UNSEALED})
            seal(file)

    def delete(self, name: str) -> None:
        """Remove a file, if it is there."""
        if self.exists(name):
            with self._reaching(name):
                self._fs.delete_file(self.path(name))

    def move(self, name: str, to: str) -> None:
        """Give a file another name; on an object store it is copied and deleted."""
        if self.local:
            Path(self.path(to)).parent.mkdir(parents=True, exist_ok=True)
        self._fs.move(self.path(name), self.path(to))

    def clean(self, folder: str) -> int:
        """Remove what killed writers left behind in a folder; returns how many files that were."""
        left = [it.path for it in self._listed(folder) if it.base_name.endswith(TEMPORARY)]
        with self._reaching(folder):
            for path in left:
                self._fs.delete_file(path)
        return len(left)

    @contextmanager
    def _reaching(self, name: str) -> Iterator[None]:
        """Turn the errors of a store that does not answer, or does not let us look, into a `StoreError`."""
        try:
            yield
        except OSError as error:
            reason = " ".join(str(error).split())[:500]
            raise StoreError(f"cannot be reached: {reason}", where=self.url(name)) from error

    @contextmanager
    def reading(self, name: str) -> Iterator[None]:
        """Turn whatever goes wrong while a file is read into a `StoreError` that names it."""
        try:
            yield
        except (OSError, pa.ArrowException) as error:
            raise StoreError(f"cannot be read: {error}", where=self.url(name), hint=MEND) from error

    @contextmanager
    def _writing(self, name: str) -> Iterator[Any]:
        target = self.path(name)
        try:
            if self.local:
                yield from self._writing_local(Path(target))
            else:
                # pyarrow would publish a half-written stream when it is closed, whatever closed it.
                with tempfile.TemporaryFile() as file:
                    yield file
                    file.seek(0)
                    self._put(name, file)
        except OSError as error:
            raise write_error(error, target) from error

    def _put(self, name: str, file: Any) -> None:
        import obstore
        from obstore.exceptions import BaseError

        try:
            obstore.put(self.objects, name, file)
        except BaseError as error:
            raise StoreError(f"cannot write: {' '.join(str(error).split())[:500]}", where=self.url(name)) from error

    @cached_property
    def objects(self) -> Any:
        """The objects of a run on an object store, for whoever needs writes that pyarrow cannot ask for."""
        try:
            from obstore.store import from_url
        except ImportError:
            raise UserError(
                "a run on an object store needs obstore", where=self.uri, hint="pip install 'kgscale[cloud]'"
            ) from None
        return from_url(str(self.uri), client_options=CLIENT_OPTIONS, retry_config=RETRIES)

    def _writing_local(self, target: Path) -> Iterator[Any]:
        target.parent.mkdir(parents=True, exist_ok=True)
        temporary = target.with_name(f".{target.name}.{os.getpid()}-{secrets.token_hex(4)}{TEMPORARY}")
        try:
            with temporary.open("w+b") as file:
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


def write_error(error: OSError, target: str) -> WorkError:
    """What a failed write means, in words for people."""
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            return WorkError("the disk is full", where=target, hint="free some space and run the command again")
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return WorkError(
                "not allowed to write here", where=target, hint="choose another run directory, or change its rights"
            )
        case _:
            return StoreError(f"cannot write: {error}", where=target)
