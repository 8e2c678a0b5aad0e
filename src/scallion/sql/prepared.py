"""The statements that every turn runs, built once: building one costs more than running it."""

from __future__ import annotations

from functools import cached_property, lru_cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Connection,
    Insert,
    Select,
    Table,
    and_,
    bindparam,
    func,
    insert,
    literal,
    select,
    update,
)

from scallion.sql.clock import ServerNow
from scallion.sql.statement import Statement
from scallion.sql.tables import Tables


class Prepared:
    """The statements for one set of tables in one dialect. Parameters have the names of their columns."""

    def __init__(self, t: Tables, dialect: str) -> None:
        self._t = t
        self._dialect = dialect
        self.soles: dict[Any, str] = {}
        """Whole writes as one statement, by their shapes."""

    @cached_property
    def claim(self) -> Statement:
        """What a writer needs of the session `for_thread`, locked."""
        s = self._t.sessions.c
        numbers = s.no, s.open_count, s.generation, s.version, s.item_count, s.bytes, s.tag_count
        key = select(self._t.keyring.c.id).limit(1).scalar_subquery()
        query = select(*numbers, s.owner, s.head, s.progress, s.fence, s.asked_to_stop, key)
        return self._made(query.where(s.thread == bindparam("for_thread")).with_for_update())

    @cached_property
    def advance(self) -> Statement:
        """Change columns of the session `of`."""
        return self._made(update(self._t.sessions).where(self._t.sessions.c.no == bindparam("of", type_=BigInteger)))

    @cached_property
    def advance_now(self) -> Statement:
        """As `advance`, at the server's time."""
        changed = update(self._t.sessions).values(updated=ServerNow())
        return self._made(changed.where(self._t.sessions.c.no == bindparam("of", type_=BigInteger)))

    @cached_property
    def touch_tags(self) -> Statement:
        """Give the tags of the session `of` its time."""
        s, tags = self._t.sessions.c, self._t.session_tags
        of = bindparam("of", type_=BigInteger)
        changed = select(s.updated).where(s.no == of).scalar_subquery()
        return self._made(update(tags).where(tags.c.session == of).values(updated=changed))

    @cached_property
    def mark(self) -> Statement:
        """The tag `named` of the session `of`, if it has it."""
        g = self._t.session_tags.c
        of = g.session == bindparam("of", type_=BigInteger)
        return self._made(select(g.tag).where(of, g.tag == bindparam("named")))

    @cached_property
    def status(self) -> Statement:
        """The status of the session `for_thread`."""
        s = self._t.sessions.c
        return self._made(select(s.status).where(s.thread == bindparam("for_thread")))

    @cached_property
    def owned_status(self) -> Statement:
        """As `status`, if the session is `for_owner`'s."""
        s = self._t.sessions.c
        return self._made(select(s.status).where(s.thread == bindparam("for_thread"), self._owned))

    @cached_property
    def add_items(self) -> Statement:
        """New items; those whose hash is there already are left out, and not counted."""
        return self._made(self.unless_there(self._t.items))

    @cached_property
    def add_entries(self) -> Statement:
        """New entries of a log."""
        return self._made(insert(self._t.entries))

    @cached_property
    def add_writes(self) -> Statement:
        """The writes of a task, unless there are some of it already."""
        return self._made(self.unless_there(self._t.writes))

    @cached_property
    def add_words(self) -> Statement:
        """New words of sessions; those that are there keep the item that they have, if they have one."""
        table = self._t.words
        if self._dialect in ("mysql", "mariadb"):
            from sqlalchemy.dialects import mysql

            ours: mysql.Insert = mysql.insert(table)
            return self._made(ours.on_duplicate_key_update(item=func.coalesce(table.c.item, ours.inserted.item)))
        new = _insert(table, self._dialect)
        has_none = and_(table.c.item.is_(None), new.excluded.item.is_not(None))
        key = [column.name for column in table.primary_key]
        return self._made(
            new.on_conflict_do_update(index_elements=key, set_={"item": new.excluded.item}, where=has_none)
        )

    @cached_property
    def put_checkpoint(self) -> Statement:
        """A checkpoint, in the place of one with the same id."""
        table = self._t.checkpoints
        key = [column.name for column in table.primary_key]
        names = [column.name for column in table.columns if column.name not in key]
        if self._dialect in ("mysql", "mariadb"):
            from sqlalchemy.dialects import mysql

            ours: mysql.Insert = mysql.insert(table)
            return self._made(ours.on_duplicate_key_update({name: ours.inserted[name] for name in names}))
        new = _insert(table, self._dialect)
        return self._made(
            new.on_conflict_do_update(index_elements=key, set_={name: new.excluded[name] for name in names})
        )

    @cached_property
    def stored(self) -> Select[Any]:
        """All checkpoints, each with its thread, the numbers of its session and the item of its form."""
        c, s, i = self._t.checkpoints.c, self._t.sessions.c, self._t.items.c
        columns = (c.session, c.ns, c.id, c.parent, c.form, c.leaves, c.metadata, s.thread, s.generation, i.data)
        form = and_(i.session == c.session, i.id == c.form)
        return select(*columns).join(self._t.sessions, s.no == c.session).join(self._t.items, form)

    @cached_property
    def one(self) -> Statement:
        """The checkpoint `at` of the thread `for_thread` in `within`."""
        return self._made(self._one)

    @cached_property
    def newest(self) -> Statement:
        """The newest checkpoint of the thread `for_thread` in `within`."""
        return self._made(self._newest)

    @cached_property
    def owned_one(self) -> Statement:
        """As `one`, if the thread is `for_owner`'s."""
        return self._made(self._one.where(self._owned))

    @cached_property
    def owned_newest(self) -> Statement:
        """As `newest`, if the thread is `for_owner`'s."""
        return self._made(self._newest.where(self._owned))

    @cached_property
    def _one(self) -> Select[Any]:
        return self._of_thread.where(self._t.checkpoints.c.id == bindparam("at"))

    @cached_property
    def _newest(self) -> Select[Any]:
        s, c = self._t.sessions, self._t.checkpoints.alias("newest")
        no = select(s.c.no).where(s.c.thread == bindparam("for_thread")).correlate(None).scalar_subquery()
        here = select(c.c.id).where(c.c.session == no, c.c.ns == bindparam("within"))
        last = here.order_by(c.c.id.desc()).limit(1).correlate(None).scalar_subquery()
        return self._of_thread.where(self._t.checkpoints.c.id == last)  # one row of an index, however long the thread

    @cached_property
    def _owned(self) -> ColumnElement[bool]:
        return self._t.sessions.c.owner == bindparam("for_owner")

    @cached_property
    def _of_thread(self) -> Select[Any]:
        s, c = self._t.sessions.c, self._t.checkpoints.c
        return self.stored.where(s.thread == bindparam("for_thread"), c.ns == bindparam("within"))

    @cached_property
    def row(self) -> Statement:
        """The checkpoint `at` of the session `of` in `within`."""
        c = self._t.checkpoints.c
        of = bindparam("of", type_=BigInteger)
        return self._made(self.stored.where(c.session == of, c.ns == bindparam("within"), c.id == bindparam("at")))

    @cached_property
    def chain(self) -> Statement:
        """The checkpoint `at` of the session `of` in `within` and its ancestors, nearest first, `most` of them."""
        c = self._t.checkpoints.c
        here = (c.session == bindparam("of", type_=BigInteger), c.ns == bindparam("within"))
        first = select(c.id, c.parent, literal(1).label("depth")).where(*here, c.id == bindparam("at"))
        chain = first.cte("chain", recursive=True)
        deeper = select(c.id, c.parent, chain.c.depth + 1)
        most = chain.c.depth < bindparam("most", type_=BigInteger)
        chain = chain.union_all(deeper.join(chain, c.id == chain.c.parent).where(*here, most))
        return self._made(self.stored.join(chain, chain.c.id == c.id).where(*here).order_by(chain.c.depth))

    @cached_property
    def writes(self) -> Statement:
        """As `written`, of the checkpoint `at`."""
        w = self._t.writes.c
        return self._made(self.written(w.checkpoint == bindparam("at"), w.path, w.task, w.leaves))

    @cached_property
    def writes_of_many(self) -> Select[Any]:
        """As `written`, of the checkpoints `ids`, whose ids come first."""
        w = self._t.writes.c
        return self.written(w.checkpoint.in_(bindparam("ids", expanding=True)), w.checkpoint, w.path, w.task, w.leaves)

    def written(self, which: ColumnElement[bool], *columns: Any) -> Select[Any]:
        """The generation of the session `of` with each of its writes in `within`; with nulls, if there is none."""
        s, w = self._t.sessions.c, self._t.writes.c
        mine = and_(w.session == s.no, w.ns == bindparam("within"), which)
        joined = self._t.sessions.outerjoin(self._t.writes, mine)
        of = bindparam("of", type_=BigInteger)
        return select(s.generation, *columns).select_from(joined).where(s.no == of)

    @cached_property
    def hashes(self) -> Select[Any]:
        """The items of the session `of` with these `hashes`."""
        i = self._t.items.c
        chosen = i.hash.in_(bindparam("hashes", expanding=True))
        return select(i.hash, i.id).where(i.session == bindparam("of", type_=BigInteger), chosen)

    @cached_property
    def items(self) -> Select[Any]:
        """The items `ids` of the session `of`."""
        i = self._t.items.c
        chosen = i.id.in_(bindparam("ids", expanding=True, type_=BigInteger))
        return select(i.id, i.type, i.data).where(i.session == bindparam("of", type_=BigInteger), chosen)

    def _made(self, built: Any) -> Statement:
        return Statement(built, self._dialect)

    def unless_there(self, table: Table) -> Insert:
        """New rows of the table; those that break a unique key are left out, and not counted."""
        return unless_there(table, self._dialect)


def unless_there(table: Table, dialect: str) -> Insert:
    """As `Prepared.unless_there`."""
    if dialect in ("mysql", "mariadb"):  # its other way counts the rows that were there
        ignoring = insert(table).prefix_with("IGNORE")
    else:
        ignoring = _insert(table, dialect).on_conflict_do_nothing()
    return ignoring.execution_options(preserve_rowcount=True)  # psycopg forgets the count with its cursor


def _insert(table: Table, dialect: str) -> Any:
    """An insert that can say what happens on a conflict. Each dialect takes long to import: only the one in use."""
    if dialect == "sqlite":
        from sqlalchemy.dialects.sqlite import insert
    else:
        from sqlalchemy.dialects.postgresql import insert  # type: ignore[assignment]
    return insert(table)


@lru_cache
def _prepared(t: Tables, dialect: str) -> Prepared:
    return Prepared(t, dialect)


def prepared(conn: Connection, t: Tables) -> Prepared:
    """The statements for these tables in the dialect of the connection."""
    return _prepared(t, conn.dialect.name)
