"""Agents inside of agents: a chief asks managers, who ask an accountant, who pays when a person lets him."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.tools import StructuredTool
from pydantic import AfterValidator, BaseModel
from scenes import asks, call

from scallion import Agent, around_turn, filters, pause
from scallion.filters import Policy
from scallion.testing import ScriptedModel

ANY = Policy(allowed=("approve", "edit", "reject"))


@around_turn
def release(request: Any, state: Any, next: Any) -> Any:
    """Have a person release the answer."""
    result = next(request)
    pause(f"Release: {result.answer}", kind="answer", allowed=("approve",))
    return result


def small(euro: int) -> int:
    """Raise ValueError for too much, which only this code knows."""
    if euro > 1000:
        raise ValueError("too much")
    return euro


class Payment(BaseModel):
    """What the accountant may pay."""

    euro: Annotated[int, AfterValidator(small)]


class Office:
    """The agents, and `did`: how often each model and each tool ran, by who and what."""

    def __init__(
        self, saver: Any, *around: Any, own: Any = "inherit", policy: Policy = ANY, on_changed: Any = "refuse"
    ) -> None:
        self.did: Counter[str] = Counter()
        gate = filters.approval({"pay": policy})
        self.accountant = Agent(
            ScriptedModel(self._accountant),
            tools=[StructuredTool.from_function(self.pay, args_schema=Payment)],
            filters=[*around, gate],
            name="accountant",
            checkpointer=own,
        )
        asking = self.accountant.as_tool("ask_accountant", "Have the accountant pay.")
        self.manager = Agent(ScriptedModel(self._manager), tools=[asking, self.note], name="manager", checkpointer=own)
        managing = self.manager.as_tool("ask_manager", "Have a manager see to it.")
        self.chief = Agent(
            ScriptedModel(self._chief),
            tools=[managing, self.note],
            checkpointer=saver,
            name="chief",
            on_changed=on_changed,
        )

    def pay(self, euro: int) -> str:
        """Pay."""
        self.did[f"pay {euro}"] += 1
        return f"paid {euro}"

    def note(self, text: str) -> str:
        """Note something."""
        self.did[f"note {text}"] += 1
        return f"noted {text}"

    def _accountant(self, messages: list[BaseMessage]) -> Any:
        self.did[f"accountant {messages[0].text}"] += 1
        if messages[-1].type == "tool":
            return f"done: {messages[-1].text.rsplit(chr(10))[-1]}"
        return asks(call("pay", euro=int(messages[-1].text.split()[-1])))

    def _manager(self, messages: list[BaseMessage]) -> Any:
        self.did[f"manager {messages[0].text}"] += 1
        return self._delegating(messages, "ask_accountant", "pay")

    def _chief(self, messages: list[BaseMessage]) -> Any:
        self.did["chief"] += 1
        return self._delegating(messages, "ask_manager", "settle")

    @staticmethod
    def _delegating(messages: list[BaseMessage], tool: str, verb: str) -> AIMessage:
        """A call for each word of the request but the first, and a note; then the results in one line."""
        if messages[-1].type == "tool":
            return AIMessage(" / ".join(sorted(one.text for one in messages if one.type == "tool")))
        words = messages[-1].text.split()[1:]
        made = [call(tool, id=f"{tool}-{word}", request=f"{verb} {word}") for word in words]
        return asks(*made, call("note", id="n", text=messages[-1].text))

    @property
    def repeated(self) -> dict[str, int]:
        """What was done more often than it should: each model is called twice, and each tool runs once."""
        models = ("chief", "manager", "accountant")
        return {what: n for what, n in self.did.items() if n > (2 if what.split()[0] in models else 1)}
