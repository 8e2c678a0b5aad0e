"""Cards with buttons: whoever sits at the notebook decides, and the turn goes on while the next cells run.

A click is carried out in a thread of its own, one behind the other, so that neither the kernel's loop nor a cell that
runs is waited for. The panel holds what it shows; the database holds what is decided.
"""

from __future__ import annotations

import asyncio
import secrets
import threading
from collections.abc import Callable, Generator
from contextlib import closing, suppress
from contextvars import copy_context
from typing import Any, Unpack

from scallion.errors import (
    AlreadyDecided,
    ApprovalExpired,
    ConfigurationError,
    DecisionError,
    NotPaused,
    ScallionError,
)
from scallion.notebook.cards import Card, decision, problems, told
from scallion.notebook.desk import Desk, desk
from scallion.notebook.extra import needed
from scallion.notebook.pictures import left_picture
from scallion.notebook.progress import Progress, Throttled
from scallion.notebook.widget import view
from scallion.options import CallOptions
from scallion.values import Approval, Completed, Paused

GONE = (AlreadyDecided, ApprovalExpired, NotPaused)
"""What is told of a card that somebody, or time, decided meanwhile."""


def panel(source: Any, thread: str | None = None, *, by: str | None = None, **options: Unpack[CallOptions]) -> Panel:
    """Cards with buttons for what waits for a decision.

    `source`: an Agent with its `thread`, or a Session: when all is decided there, the turn goes on, with the options
    of `resume`. A saver or an Inbox: everything that pends in it, or on `thread`; nothing goes on. `by`: who decides.
    Raises ConfigurationError where the extra `notebook` is missing, ThreadError where there is no such thread.
    """
    return Panel(desk(source, thread, options), by)


class Panel:
    """What `panel` gives: shown by a notebook, and looked at from the next cell."""

    result: Completed | Paused | None = None
    """What the turn came to so far; None before it went on, and again where a later turn asks."""
    error: Exception | None = None
    """What ended the turn instead; it can be gone on with again."""

    def __init__(self, desk: Desk, by: str | None) -> None:
        self._desk = desk
        self._by = by
        self._lock = threading.RLock()
        self._parts: list[Card | list[dict[str, str]]] = []
        self._phase = "open"
        self._told = ""
        self._has_failed = False
        self._stopped = threading.Event()
        self._waiters: list[Callable[[], object]] = []
        self._token = f"scallion-{secrets.token_hex(8)}"
        self._view = view(self._token, self._heard)
        self.refresh()

    def __repr__(self) -> str:
        return f"Panel({self._desk.name!r}, {self._phase}, {self._waiting()} to decide)"

    def _ipython_display_(self) -> None:
        """Two outputs: what still stands in the file when the kernel is gone, and the buttons, which hide it."""
        publish = needed("IPython.display").publish_display_data
        publish(left_picture(self.approvals, self._token)._repr_mimebundle_())
        buttons = self._view._repr_mimebundle_()
        publish({**(buttons[0] if isinstance(buttons, tuple) else buttons), "text/plain": repr(self)})

    @property
    def approvals(self) -> list[Approval]:
        """What is shown, as it was seen last."""
        return [one.approval for one in self._cards()]

    @property
    def is_running(self) -> bool:
        """Whether the turn goes on right now."""
        return self._phase == "running"

    def refresh(self) -> None:
        """Look what became of the cards meanwhile, and for new ones; not while the turn runs."""
        with self._lock:
            if not self.is_running:
                self._look()
                self._push()

    def go_on(self) -> None:
        """Go on in the background, with what is decided so far. Raises ConfigurationError for an inbox."""
        if not self._desk.goes_on:
            raise ConfigurationError("an inbox has no agent to go on with: make the panel of an Agent or a Session")
        self._start(lambda: True)

    def stop(self) -> None:
        """Stop the turn behind its current step; it can be gone on with."""
        self._stopped.set()

    def __await__(self) -> Generator[Any, None, Completed | Paused | list[Approval]]:
        """Wait until the turn is over, or all of an inbox is decided; raises what ended it.

        Needs ipykernel 7: older ones hear no click while a cell waits.
        """
        return self._ended().__await__()

    async def _ended(self) -> Any:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        with self._lock:
            self._waiters.append(lambda: loop.call_soon_threadsafe(_settle, future))
            self._tell_waiters()
        await future
        if self.error is not None:
            raise self.error
        return self.result if self._desk.goes_on else self.approvals

    # What somebody does in the browser.

    def _heard(self, content: Any) -> None:
        """A message of the browser: about one card, as it stood when it was clicked, or about all."""
        match content:
            case {"do": "stop"}:
                self.stop()
                self._start(self._look)
            case {"do": "decide"}:
                self._start(self._decide, content)
            case {"do": "refresh"}:
                self._start(self._look)
            case {"do": "go on"}:
                self._start(self._may_go_on)

    def _start(self, work: Callable[..., bool | None], *args: Any) -> None:
        """Do it in the background; where it gives True, the turn goes on."""
        run = copy_context().run
        threading.Thread(target=run, args=(self._carefully, work, *args), name="scallion-panel", daemon=True).start()

    def _carefully(self, work: Callable[..., bool | None], *args: Any) -> None:
        """One thing at a time, and none while the turn runs. What fails is told in the panel: nobody else hears it."""
        with self._lock:
            if self.is_running:
                self._refuse(*args)
                return
            try:
                goes_on = work(*args)
            except BaseException as error:
                failed = _ended_by(error)
                goes_on, self._told = False, f"{type(failed).__name__}: {told(failed)}"
            if goes_on:
                self._phase, self._told, self.error = "running", "", None
                self._stopped.clear()
            self._push()
        if goes_on:  # without the lock: who looks at the panel meanwhile does not wait
            self._run()

    def _refuse(self, content: dict[str, Any] | None = None) -> None:
        """Tell whoever clicked that nothing was done, so that the card can be used again."""
        clicked = self._card(content or {})
        if clicked is not None and content is not None:
            clicked.heard = content.get("nonce")
        is_stopped = self._stopped.is_set()
        self._told = "stopping behind this step" if is_stopped else "going on: decide when it has paused"
        self._push()

    def _decide(self, content: dict[str, Any]) -> bool:
        """Decide one card. A click on a card that has changed since it was drawn, or a second one, is none."""
        shown = self._card(content)
        if shown is None:
            return False
        self._told, shown.heard = "", content.get("nonce")
        if shown.approval.status != "pending" or shown.seen != content.get("seen"):
            return False
        is_decided = self._try(shown, content)
        return is_decided and self._desk.goes_on and not self._waiting()

    def _try(self, shown: Card, content: dict[str, Any]) -> bool:
        made, shown.problems = decision(shown.approval, content.get("kind"), content.get("filled"), content.get("text"))
        shown.told = ""
        if made is not None:
            shown.problems = problems(shown.approval, made)
        if made is None or shown.problems:
            return False
        try:
            self._desk.decide(shown.approval, made, self._by)
        except GONE as error:
            shown.told = f"not decided by you: {told(error)}"
        except DecisionError as error:
            shown.problems = {"": told(error)}
        self._look()
        return not shown.told and not shown.problems

    def _run(self) -> None:
        """Run the rest of the turn, and show it."""
        progress = Progress()

        def draw() -> None:
            self._view.trail = progress.to_json()

        drawn = Throttled(draw, progress)
        phase, says = "open", ""
        try:
            with closing(self._desk.stream()) as events:  # type: ignore[type-var]
                for event in events:
                    drawn(progress.take(event))
                    if self._stopped.is_set():
                        break
        except BaseException as error:  # `sys.exit()` of a tool too: it ends no more than this thread
            self.error, phase = _ended_by(error), "failed"
            says = f"{type(self.error).__name__}: {told(self.error)}"
        with self._lock:
            self._parts.append(progress.to_json())
            self._after(progress.result, phase, says)
            self._view.trail = []

    def _after(self, result: Completed | Paused | None, phase: str, says: str) -> None:
        """Show what the turn came to."""
        try:
            self._look()
        except Exception as error:  # the turn is over all the same
            says = says or f"{type(error).__name__}: {told(error)}"
        if result is not None:
            self.result, phase = result, "done" if isinstance(result, Completed) else "open"
        elif phase == "open":
            phase, says = "stopped", says or "stopped"
        self._phase, self._told = phase, says
        self._push()

    # What is shown.

    def _cards(self) -> list[Card]:
        return [one for one in self._parts if isinstance(one, Card)]

    def _card(self, content: dict[str, Any]) -> Card | None:
        """The card that a message of the browser is about."""
        return next((one for one in self._cards() if one.key == content.get("key")), None)

    def _look(self) -> None:
        """Every card as it stands, and those that are new."""
        asked = {(one.id, one.thread): one for one in self._desk.asked()}
        for shown in self._cards():
            known = asked.pop((shown.approval.id, shown.approval.thread), None)
            shown.show(known or self._desk.now(shown.approval))
        self._parts += [Card(one) for one in asked.values()]
        self._has_failed = self._desk.has_failed()
        if self._phase == "done" and self._waiting():  # of another turn: somebody went on with the thread
            self._phase, self.result = "open", None

    def _push(self) -> None:
        """Have the browser draw it."""
        self._view.parts = [one.to_json() if isinstance(one, Card) else {"trail": one} for one in self._parts]
        self._view.state = {"phase": self._phase, "told": self._told or self._says(), "goes_on": self._may_go_on()}
        self._view.answers += 1
        self._tell_waiters()

    def _tell_waiters(self) -> None:
        waiters, self._waiters = self._waiters, [] if self._is_over() else self._waiters
        for waiter in waiters if self._is_over() else ():
            with suppress(RuntimeError):  # its loop was closed meanwhile
                waiter()

    def _waiting(self) -> int:
        return sum(one.status == "pending" for one in self.approvals)

    def _may_go_on(self) -> bool:
        """Whether there is something to go on with that only waits for somebody to say so."""
        if not self._desk.goes_on or self._phase not in ("open", "failed", "stopped") or self._waiting():
            return False
        if self._phase == "failed":
            return not isinstance(self.error, NotPaused)
        return (
            self._phase == "stopped"
            or self._has_failed
            or any(one.status in ("decided", "expired") for one in self.approvals)
        )

    def _is_over(self) -> bool:
        if self._phase == "open":
            return not self._waiting() and not self._may_go_on()
        return self._phase in ("done", "failed")

    def _says(self) -> str:
        match self._phase:
            case "running":
                return "going on"
            case "done":
                return "done"
        waiting = self._waiting()
        if not waiting and self._has_failed:
            return "the turn failed, and can be gone on with"
        return f"{waiting} to decide" if waiting else "nothing waits for a decision"


def _ended_by(error: BaseException) -> Exception:
    """What is told; raised as it is, SystemExit of a tool would end the kernel of the cell that waits."""
    if isinstance(error, Exception):
        return error
    made = ScallionError(f"a tool or a filter raised {type(error).__name__}")
    made.__cause__ = error
    return made


def _settle(future: asyncio.Future[None]) -> None:
    if not future.done():
        future.set_result(None)
