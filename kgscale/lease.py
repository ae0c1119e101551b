"""The lock of a run on an object store: an object that is there only while its driver renews it.

It is made and taken over by conditional writes (`If-None-Match`, `If-Match`), which S3, Google Cloud Storage, Azure and
MinIO have. Its age is told by the store's own clock, so that no clock of a driver counts. Limits: a driver that is cut
off from the store for longer than `LEASE_S` may lose the run; and a worker that asked who holds the run just before may
still commit one file just after, whose doubled rows the next driver takes away.
"""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from kgscale.errors import UserError, WorkError
from kgscale.store import Store, StoreError

LEASE_S = 60.0
RENEW_S = 15.0
PROBE_FILE = "driver.probe"


@contextmanager
def lease(store: Store, name: str, holder: dict[str, Any]) -> Iterator[None]:
    """Hold the object `name` with `holder` in it while the block runs.

    Raises `UserError` if another driver holds it, `WorkError` when the store cannot be reached.
    """
    objects = store.objects
    tag = _take(store, objects, name, holder)
    done = threading.Event()
    thread = threading.Thread(target=_renew, args=(objects, name, holder, tag, done), daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
        _leave(objects, name, holder)


def held_by(store: Store, name: str) -> dict[str, Any] | None:
    """What the holder of a live lease wrote into it; null if there is none.

    Who may not write to the store cannot ask for its clock, and goes by this machine's.
    """
    from obstore.exceptions import BaseError

    objects = store.objects
    found = _read(objects, name)
    if found is None:
        return None
    holder, written_at = found[0], found[2]
    try:
        now = _now(objects)
    except BaseError:
        now = time.time()
    return holder if now - written_at < LEASE_S else None


def _leave(objects: Any, name: str, holder: dict[str, Any]) -> None:
    """Take the object away, if it is still this holder's; if the store does not answer, the lease ends by itself."""
    import obstore
    from obstore.exceptions import BaseError

    with suppress(BaseError, StoreError):
        if (found := _read(objects, name)) is not None and found[0].get("token") == holder["token"]:
            obstore.delete(objects, name)


def _take(store: Store, objects: Any, name: str, holder: dict[str, Any]) -> str:
    import obstore
    from obstore.exceptions import AlreadyExistsError, BaseError, PreconditionError

    data = json.dumps({**holder, "renewed": 0}).encode()
    try:
        try:
            return str(obstore.put(objects, name, data, mode="create")["e_tag"])
        except AlreadyExistsError:
            found = _read(objects, name)
        if found is not None:
            other, tag, written_at = found
            age = _now(objects) - written_at
            if age < LEASE_S:
                raise UserError(
                    f"another driver works on this run: {in_words(other)}",
                    where=store.uri,
                    hint=f"wait for it, or stop it; if it was killed, its lock ends in {LEASE_S - age:.0f} s",
                )
            return str(obstore.put(objects, name, data, mode={"e_tag": tag})["e_tag"])
        return str(obstore.put(objects, name, data, mode="create")["e_tag"])
    except (AlreadyExistsError, PreconditionError):
        raise UserError("another driver has just taken this run", where=store.uri, hint="wait for it") from None
    except BaseError as error:
        raise WorkError(f"cannot write to the run directory: {error}", where=store.uri) from None


def _renew(objects: Any, name: str, holder: dict[str, Any], tag: str, done: threading.Event) -> None:
    """Write the object again and again, until the block ends or somebody else has written it."""
    import obstore
    from obstore.exceptions import BaseError, PreconditionError

    count = 0
    while not done.wait(RENEW_S):
        count += 1
        # Whatever fails here is tried again at the next turn: a thread that dies loses the run.
        with suppress(BaseError, StoreError, OSError):
            try:
                # Other content each time: the tag of an object is made from what is in it.
                data = json.dumps({**holder, "renewed": count}).encode()
                tag = str(obstore.put(objects, name, data, mode={"e_tag": tag})["e_tag"])
            except PreconditionError:
                # An answer may be lost, so that our own writing looks like another's.
                found = _read(objects, name)
                if found is None or found[0].get("token") != holder["token"]:
                    # Lost: the workers see it in the object when they commit, and end the job.
                    return
                tag = found[1]


def _read(objects: Any, name: str) -> tuple[dict[str, Any], str, float] | None:
    """What is in the object, its tag, and when it was written by the store's clock; null if it is not there."""
    import obstore
    from obstore.exceptions import BaseError, NotFoundError

    try:
        got = obstore.get(objects, name)
        content = bytes(got.bytes())
    except (FileNotFoundError, NotFoundError):
        return None
    except BaseError as error:
        reason = " ".join(str(error).split())[:500]
        raise StoreError(f"cannot be reached: {reason}", where=name) from error
    try:
        holder = dict(json.loads(content))
    except (ValueError, TypeError):
        holder = {}
    return holder, str(got.meta["e_tag"]), got.meta["last_modified"].timestamp()


def in_words(holder: dict[str, Any]) -> str:
    """Who holds a run, for people; a lock file that was damaged does not tell."""
    try:
        return f"process {holder['pid']} on {holder['host']} (`{holder['command']}`, since {holder['since']})"
    except (KeyError, TypeError):
        return "unknown (its lock is damaged)"


def _now(objects: Any) -> float:
    """The store's clock, which is read off an object that has just been written."""
    import obstore

    obstore.put(objects, PROBE_FILE, str(time.time_ns()).encode())
    return float(obstore.head(objects, PROBE_FILE)["last_modified"].timestamp())
