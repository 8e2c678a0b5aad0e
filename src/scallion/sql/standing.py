"""`rules`: standing approvals and denials of a database, in both colours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from sqlalchemy import Connection

from scallion.approvals.policy import check_span
from scallion.approvals.rules import SCOPES, VERDICTS, Asked, Rule, RuleVerdict, Ruling, Scope, check_source, condition
from scallion.errors import ConfigurationError
from scallion.sql import clock, ledger, names, rules, sessions
from scallion.sql.clock import to_micros
from scallion.sql.failures import Work
from scallion.sql.sessions import Page
from scallion.sql.view import Leased

if TYPE_CHECKING:
    from scallion.sql.engines import Database

Span = float | timedelta
Made = tuple[dict[str, Any], str]
"""The columns of a rule, and what it says of arguments."""


@dataclass(frozen=True)
class Rules(Leased):
    """What was said beforehand about calls that a gate would ask about; where bound to an owner, about that one's."""

    def add(
        self,
        tool: str,
        verdict: RuleVerdict = "allow",
        *,
        by: str,
        thread: str | None = None,
        owner: str | None = None,
        args: Mapping[str, Any] | None = None,
        pattern: Mapping[str, Any] | None = None,
        expires_in: Span | None = None,
        uses: int | None = None,
    ) -> Rule:
        """Allow or deny calls of a tool from here on, without asking a person.

        `thread`, `owner`: only calls there; None: everywhere. `args`: only calls with exactly these arguments;
        `pattern`: a JSON schema that the arguments have to fit. `expires_in`: seconds. `uses`: for how many calls.
        `by`: who makes the rule. Raises ConfigurationError for what makes no rule.
        """
        said = condition(args, pattern, verdict)
        work, unsure = self._add(self._checked(tool, verdict, by, thread, owner, uses), said, expires_in)
        return self.database.run(work, write=True, unsure=unsure)

    async def aadd(
        self,
        tool: str,
        verdict: RuleVerdict = "allow",
        *,
        by: str,
        thread: str | None = None,
        owner: str | None = None,
        args: Mapping[str, Any] | None = None,
        pattern: Mapping[str, Any] | None = None,
        expires_in: Span | None = None,
        uses: int | None = None,
    ) -> Rule:
        """As `add`."""
        said = condition(args, pattern, verdict)
        work, unsure = self._add(self._checked(tool, verdict, by, thread, owner, uses), said, expires_in)
        return await self.database.arun(work, write=True, unsure=unsure)

    def add_from(
        self,
        approval_id: str,
        scope: Scope = "thread",
        *,
        by: str,
        verdict: RuleVerdict = "allow",
        exact: bool = True,
        thread: str | None = None,
        expires_in: Span | None = None,
        uses: int | None = None,
    ) -> Rule:
        """Make a rule of what an approval showed: its tool, and with `exact` its arguments. It decides nothing.

        `scope`: "thread" for calls in its thread, "always" for those of its owner, or everywhere if it has none.
        `thread` tells copies of a thread apart. Raises UnknownApproval, DecisionError for what a gate did not ask,
        ConfigurationError.
        """
        work, unsure = self._add_from(approval_id, scope, verdict, exact, by, thread, expires_in, uses)
        return self.database.run(work, write=True, unsure=unsure)

    async def aadd_from(
        self,
        approval_id: str,
        scope: Scope = "thread",
        *,
        by: str,
        verdict: RuleVerdict = "allow",
        exact: bool = True,
        thread: str | None = None,
        expires_in: Span | None = None,
        uses: int | None = None,
    ) -> Rule:
        """As `add_from`."""
        work, unsure = self._add_from(approval_id, scope, verdict, exact, by, thread, expires_in, uses)
        return await self.database.arun(work, write=True, unsure=unsure)

    def list(
        self,
        *,
        tool: str | None = None,
        thread: str | None = None,
        owner: str | None = None,
        ended: bool = False,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Rule]:
        """One page of the rules that hold, the oldest first; with `ended` also what is revoked, expired or used up.

        `after`: `next` of the page before.
        """
        return self.database.run(self._list(tool, thread, owner, ended, limit, after))

    async def alist(
        self,
        *,
        tool: str | None = None,
        thread: str | None = None,
        owner: str | None = None,
        ended: bool = False,
        limit: int = 50,
        after: str | None = None,
    ) -> Page[Rule]:
        """As `list`."""
        return await self.database.arun(self._list(tool, thread, owner, ended, limit, after))

    def revoke(self, id: int, *, by: str) -> Rule:
        """End a rule; what it allowed already stays allowed. Raises DecisionError if there is none of that number."""
        return self.database.run(self._revoke(id, by), write=True)

    async def arevoke(self, id: int, *, by: str) -> Rule:
        """As `revoke`."""
        return await self.database.arun(self._revoke(id, by), write=True)

    def use(self, call: Asked) -> Ruling | None:
        """What the rules say about a call, for a gate; a use is counted and written into the audit, once for a call."""
        if not self.database.run(self._is_any(call)):
            return None
        return self.database.run(self._use(call), write=True)

    async def ause(self, call: Asked) -> Ruling | None:
        """As `use`."""
        if not await self.database.arun(self._is_any(call)):
            return None
        return await self.database.arun(self._use(call), write=True)

    def _checked(
        self, tool: str, verdict: RuleVerdict, by: str, thread: str | None, owner: str | None, uses: int | None
    ) -> dict[str, Any]:
        if verdict not in VERDICTS:
            raise ConfigurationError(f'a rule says "allow" or "deny", not {verdict!r}')
        if uses is not None and (not isinstance(uses, int) or isinstance(uses, bool) or not 0 < uses < 2**62):
            raise ConfigurationError(f"uses= of a rule is a whole number above zero, not {uses!r}")
        if not tool:
            raise ConfigurationError("a rule names a tool")
        return {
            "tool": names.text("name of a tool", tool),
            "verdict": verdict,
            "thread": names.optional("thread id", thread),
            "owner": self._scope(names.optional("owner", owner)),
            "created_by": names.person("name of who makes a rule", by),
            "left": uses,
        }

    def _add(self, values: dict[str, Any], said: str, expires_in: Span | None) -> tuple[Work[Rule], Work[Rule]]:
        return self._made(lambda conn, now: (values, said), expires_in)

    def _add_from(
        self,
        id: str,
        scope: Scope,
        verdict: RuleVerdict,
        exact: bool,
        by: str,
        thread: str | None,
        expires_in: Span | None,
        uses: int | None,
    ) -> tuple[Work[Rule], Work[Rule]]:
        id, thread = names.text("approval id", id), names.optional("thread id", thread)
        if scope not in SCOPES:
            raise ConfigurationError(f'scope= of a rule is "thread" or "always", not {scope!r}')
        self._checked("tool", verdict, by, None, None, uses)  # before anything is read

        def source(conn: Connection, now: datetime) -> Made:
            shown = ledger.get(conn, self.database.tables, id, to_micros(now), thread=thread, owner=self.owner)
            check_source(shown, verdict)
            where = shown.thread if scope == "thread" else None
            values = self._checked(str(shown.tool), verdict, by, where, shown.owner, uses)
            return values, condition(shown.args if exact else None, None, verdict)

        return self._made(source, expires_in)

    def _made(
        self, source: Callable[[Connection, datetime], Made], expires_in: Span | None
    ) -> tuple[Work[Rule], Work[Rule]]:
        span = _span(expires_in)
        tried: list[tuple[dict[str, Any], datetime]] = []

        def work(conn: Connection) -> Rule:
            self._check_lease(conn)
            now = clock.read(conn, self.database.clock)
            values, said = source(conn, now)
            values = {**values, "expires": to_micros(now + span) if span is not None else None}
            tried.append((values, now))
            return rules.add(conn, self.database.tables, values, said, now)

        def unsure(conn: Connection) -> Rule:
            return rules.added(conn, self.database.tables, *tried[-1]) or work(conn)

        return work, unsure

    def _list(
        self, tool: str | None, thread: str | None, owner: str | None, ended: bool, limit: int, after: str | None
    ) -> Work[Page[Rule]]:
        wanted: dict[str, Any] = {"ended": ended, "limit": limit, "after": after, "owner": self._scope(owner)}
        wanted |= {"tool": names.optional("name of a tool", tool), "thread": names.optional("thread id", thread)}
        return lambda conn: rules.page(conn, self.database.tables, self._now(conn), **wanted)

    def _revoke(self, id: int, by: str) -> Work[Rule]:
        no, by = sessions.cursor(str(id), 1)[0], names.person("name of who revokes", by)

        def work(conn: Connection) -> Rule:
            self._check_lease(conn)
            now = clock.read(conn, self.database.clock)
            return rules.revoke(conn, self.database.tables, no, by, now, self.owner)

        return work

    def _is_any(self, call: Asked) -> Work[bool]:
        return lambda conn: rules.is_any(conn, self.database.tables, call.tool)

    def _use(self, call: Asked) -> Work[Ruling | None]:
        def work(conn: Connection) -> Ruling | None:
            self._check_lease(conn)
            now = clock.read(conn, self.database.clock)
            return rules.use(conn, self.database.tables, call, now, self.owner)

        return work


def _span(expires_in: Any) -> timedelta | None:
    check_span(expires_in, "expires_in= of a rule")
    return expires_in if isinstance(expires_in, timedelta | None) else timedelta(seconds=expires_in)


class Ruled:
    """Gives the rules; for whoever has a database and an owner."""

    database: Database
    owner: str | None

    @property
    def rules(self) -> Rules:
        """Standing approvals and denials: what a gate does not have to ask a person about."""
        return Rules(self.database, self.owner)
