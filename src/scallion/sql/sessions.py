"""Sessions: the row of a thread, kept in the transaction of its checkpoints, and what a listing needs of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from secrets import randbits
from typing import TYPE_CHECKING, Any, Generic, Literal, NamedTuple, TypeVar, get_args

from sqlalchemy import (
    Column,
    ColumnElement,
    Connection,
    Insert,
    Row,
    Select,
    and_,
    case,
    delete,
    func,
    insert,
    or_,
    select,
    update,
)

from scallion.errors import ConfigurationError, LeaseLost, StorageError
from scallion.shown import Shown
from scallion.sql import audit, keyring, marks, names, owners
from scallion.sql.prepared import prepared
from scallion.sql.tables import Tables

if TYPE_CHECKING:
    from scallion.sql.leases import Lease
    from scallion.sql.memory import Known

SEALED = ("title", "preview")
NAMED = ("owner", "agent", *SEALED)
"""The columns with texts that came from elsewhere."""
SessionStatus = Literal["idle", "running", "paused", "failed"]
STATUSES = get_args(SessionStatus)
SessionOrder = Literal["updated", "created"]
ORDERS = get_args(SessionOrder)
T = TypeVar("T")

OPEN = ("pending", "decided")
"""What an approval is that somebody still has to do something with."""

ATTEMPTS = 10
"""How often a row is made for a thread that others delete at the same time."""


@dataclass(frozen=True)
class Page(Shown, Generic[T], drawn_as="page"):
    """One page of a listing; `next` is the `after` of the next page, None on the last one."""

    items: Sequence[T]
    next: str | None = None


@dataclass(frozen=True)
class Session(Shown, drawn_as="row"):
    """A thread as a thing to list. Times are UTC and aware; `bytes` counts the distinct values stored."""

    thread: str
    status: SessionStatus
    created: datetime
    updated: datetime
    owner: str | None = None
    agent: str | None = None
    title: str | None = None
    preview: str | None = None
    message_count: int = 0
    pending_count: int = 0
    bytes: int = 0
    tags: tuple[str, ...] = ()
    holder: str | None = None
    """Which process runs a turn on it, by host and process number; `held_until` says for how long that is sure."""
    held_since: datetime | None = None
    held_until: datetime | None = None
    archived: bool = False
    """Whether it was put away: listings leave it out unless they are asked for it."""
    found: str | None = None
    """Of what a search found in the messages: the words around it."""

    def to_json(self) -> dict[str, Any]:
        """Plain data, times as ISO 8601 texts."""
        plain = {field.name: getattr(self, field.name) for field in fields(self)}
        return plain | {
            "created": self.created.isoformat(),
            "updated": self.updated.isoformat(),
            "tags": list(self.tags),
            "held_since": self.held_since and self.held_since.isoformat(),
            "held_until": self.held_until and self.held_until.isoformat(),
        }


NOTHING: Mapping[str, Any] = {"progress": "idle", "message_count": 0, "title": None, "preview": None, "head": None}
"""What a row says of a thread without a checkpoint of its outermost graph."""


class Claimed(NamedTuple):
    """A session whose row this transaction holds."""

    no: int
    open_count: int
    generation: int
    version: int
    item_count: int
    bytes: int
    tag_count: int
    owner: str | None
    head: str | None
    progress: str
    fence: int
    asked_to_stop: int | None


def claim(
    conn: Connection, t: Tables, thread: str, now: Any, owner: str | None = None, lease: Lease | None = None
) -> Claimed:
    """The session of `thread`, made if missing, locked until the transaction ends.

    With an `owner` it must be theirs: raises ThreadError otherwise. With a `lease` that one must hold: LeaseLost.
    """
    names.check("thread id", thread)
    *numbers, key = _locked(conn, t, thread, now, owner, lease)
    keyring.require(key, t)
    claimed = Claimed(*numbers)
    owners.admit(thread, claimed.owner, owner)
    if lease is not None:
        lease.admit(claimed)
    return claimed


def _locked(
    conn: Connection, t: Tables, thread: str, now: Any, owner: str | None, lease: Lease | None
) -> Sequence[Any]:
    """The row of the thread. It is made again where the one that was in the way is deleted before it is locked."""
    query = prepared(conn, t).claim
    for _ in range(ATTEMPTS):
        if rows := query.rows(conn, for_thread=thread):
            locked: Sequence[Any] = rows[0]
            return locked
        if lease is not None:  # somebody deleted the thread: a turn that still runs does not bring it back
            raise LeaseLost(thread)
        conn.execute(insert_new(conn, t, thread, now, owner))
    raise StorageError(f"thread {thread!r} is being deleted again and again: nothing of this was stored")


def locked(conn: Connection, t: Tables, thread: str, owner: str | None) -> int | None:
    """The session of the thread, locked; None if there is none, or it is another owner's."""
    query = select(t.sessions.c.no).where(t.sessions.c.thread == thread)
    if owner is not None:
        query = query.where(t.sessions.c.owner == owner)
    found: int | None = conn.execute(query.with_for_update()).scalar()
    return found


def vacant(conn: Connection, t: Tables, thread: str, now: Any, owner: str | None = None) -> Claimed:
    """A new session of that name. Raises StorageError if there is one, even of writes alone; ThreadError as `claim`."""
    names.check("thread id", thread)
    is_new = conn.execute(insert_new(conn, t, thread, now, owner)).rowcount == 1
    claimed = claim(conn, t, thread, now, owner)
    if not is_new:
        raise StorageError(f"the thread {thread!r} exists: delete it first, or give this one another name")
    return claimed


def insert_new(conn: Connection, t: Tables, thread: str, now: Any, owner: str | None) -> Insert:
    """The statement that makes the row of a thread, unless it is there."""
    return prepared(conn, t).unless_there(t.sessions).values(new_row(thread, owner) | {"created": now, "updated": now})


def new_row(thread: str, owner: str | None) -> dict[str, Any]:
    """What the row of a new thread says, but for its times."""
    # No generation is there twice: what is remembered of a database that was made anew must not pass for true.
    return {
        "owner": owner, "thread": thread, "status": "idle", "progress": "idle", "message_count": 0, "pending_count": 0,
        "open_count": 0, "bytes": 0, "generation": randbits(30), "version": 0, "item_count": 0, "tag_count": 0,
    }  # fmt: skip


def advance(conn: Connection, t: Tables, known: Known, changes: Mapping[str, Any], now: Any = None) -> None:
    """Write what a new head says about the thread, as changed at `now`; a `progress` shows unless it is paused.

    Whose it is stays as it was said first.
    """
    values = {**changes, "of": known.session, "item_count": known.item_count}
    for name in NAMED:
        names.check(name, values.get(name))
    names.check("checkpoint id", values.get("head"))
    if known.claimed.owner is not None:
        values.pop("owner", None)
    if known.claimed.tag_count and "title" in values and marks.is_titled(conn, t, known.session):
        del values["title"]
    for name in SEALED:
        if values.get(name) is not None:
            values[name] = t.cipher.seal_text(values[name], f"sessions.{name}", known.session)
    if "progress" in values:
        values["status"] = "paused" if known.claimed.open_count else values["progress"]
    if "head" in values:
        values["unindexed"] = 1
    if isinstance(now, int):
        values["updated"] = now
    known.changed(values)
    here = prepared(conn, t)
    (here.advance if now is None or isinstance(now, int) else here.advance_now).run(conn, values)
    if known.claimed.tag_count and now is not None:
        here.touch_tags.run(conn, {"of": known.session})


def recount(conn: Connection, t: Tables, no: int) -> None:
    """Bring the counts of approvals and the status that follows from them up to date."""
    a = t.approvals.c
    there = has_asked(t)
    counts = func.count(case((and_(there, a.status == "pending"), 1))), func.count(case((there, 1))), func.count()
    counted = select(*counts).join(t.sessions, t.sessions.c.no == a.session).where(a.session == no, waits(t))
    pending, waiting, opened = conn.execute(counted).one()
    status = "paused" if waiting else t.sessions.c.progress
    conn.execute(
        update(t.sessions).where(t.sessions.c.no == no).values(pending_count=pending, open_count=opened, status=status)
    )


def is_held(t: Tables, now: Any) -> ColumnElement[bool]:
    """Whether somebody has the lease of the thread."""
    return and_(t.sessions.c.holder.is_not(None), t.sessions.c.held_until > now)


def waits(t: Tables) -> ColumnElement[bool]:
    """Whether the thread waits at an approval: it is open, or it has expired and the thread did not go on since."""
    a, s = t.approvals.c, t.sessions.c
    head = select(s.head).where(s.no == a.session).correlate(t.approvals).scalar_subquery()
    return or_(a.status.in_(OPEN), and_(a.status == "expired", a.root == head))


def has_asked(t: Tables) -> ColumnElement[bool]:
    """Whether the checkpoint that an approval is asked at is stored; of approvals joined with their sessions.

    LangGraph stores what a step writes beside the checkpoint that it begins at, which may come later, or never.
    """
    return t.approvals.c.root <= t.sessions.c.head


def status(conn: Connection, t: Tables, thread: str, owner: str | None = None) -> SessionStatus | None:
    """The status of the thread; None if there is none, or it is another owner's."""
    if owner is None:
        found = prepared(conn, t).status.rows(conn, for_thread=thread)
    else:
        found = prepared(conn, t).owned_status.rows(conn, for_thread=thread, for_owner=owner)
    return found[0][0] if found else None


def cursor(after: object, parts: int, order: str | None = None) -> list[int]:
    """The numbers of a cursor, of that order. Raises ConfigurationError for what is no `next` of such a page."""
    texts = after.split(".") if isinstance(after, str) else []
    if order is not None and texts:
        parts = parts if texts.pop(0) == order else -1
    if len(texts) != parts or not all(text.isascii() and text.isdigit() and len(text) < 19 for text in texts):
        raise ConfigurationError("`after` is not the `next` of a page of this listing")
    return [int(text) for text in texts]


def check_limit(limit: object) -> None:
    """Raise ConfigurationError unless a page of that size exists."""
    if not isinstance(limit, int) or limit < 1:
        raise ConfigurationError("`limit` must be at least 1")


def check_choice(name: str, value: object, choices: Sequence[Any]) -> None:
    """Raise ConfigurationError unless it is one of the choices."""
    if value not in choices:
        raise ConfigurationError(f"`{name}` is one of {', '.join(map(repr, choices))}, not {value!r}")


def numbered(
    conn: Connection, query: Select[Any], no: Column[Any], limit: int, after: str | None, *, newest: bool = False
) -> tuple[Sequence[Row[Any]], str | None]:
    """A page of rows in the order of their numbers, the oldest or the `newest` first, and the `after` of the next."""
    check_limit(limit)
    if after is not None:
        last = cursor(after, 1)[0]
        query = query.where(no < last if newest else no > last)
    found = conn.execute(query.order_by(no.desc() if newest else no).limit(limit + 1)).all()
    return found[:limit], str(found[limit - 1].no) if len(found) > limit else None


def tag(conn: Connection, t: Tables, thread: str, tags: Sequence[str], owner: str | None = None) -> bool:
    """Give the session exactly these tags; False if there is no such session."""
    for tag in tags:
        names.check("tag", tag)
    s = t.sessions.c
    query = select(s.no, s.created, s.updated).where(s.thread == thread)
    if owner is not None:
        query = query.where(s.owner == owner)
    row = conn.execute(query.with_for_update()).one_or_none()
    if row is None:
        return False
    conn.execute(delete(t.session_tags).where(t.session_tags.c.session == row.no, marks.of_users(t)))
    times = {"session": row.no, "created": row.created, "updated": row.updated}
    if chosen := sorted(set(tags)):
        conn.execute(insert(t.session_tags), [times | {"tag": tag} for tag in chosen])
    marks.count(conn, t, row.no)
    return True


def remove(conn: Connection, t: Tables, thread: str, owner: str | None = None) -> None:
    """Delete the thread with everything that belongs to it."""
    no = locked(conn, t, thread, owner)
    if no is None:
        return
    audit.ending(conn, t, "deleted", and_(t.approvals.c.session == no, t.approvals.c.status.in_(OPEN)))
    for table in t.belonging:
        conn.execute(delete(table).where(table.c.session == no))
    conn.execute(delete(t.sessions).where(t.sessions.c.no == no))
    _remove_rules(conn, t, thread)


def _remove_rules(conn: Connection, t: Tables, thread: str) -> None:
    """Rules about the thread go with it: one that is made later under its name is another one."""
    r = t.rules.c
    for no in conn.execute(select(r.no).where(r.thread == thread).order_by(r.no)).scalars().all():
        conn.execute(delete(t.rules).where(r.no == no))
        audit.add(conn, t, "rule_deleted", thread=thread, subject=str(no))
