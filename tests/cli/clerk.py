"""An agent for the tests of the command line: what it does follows from the user's last word."""

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from scallion import Agent, Policy, filters
from scallion.testing import ScriptedModel
from scallion.tools import ask_human

EVIL = "red\x1b[31m and gone\x1b[2J\x07\r\x9b1m\u202eend"


def pay(order: int, reason: str = "") -> str:
    """Pay an order."""
    return f"paid {order} {reason}".strip()


def mail(to: str) -> str:
    """Write to a customer."""
    return f"sent to {to}"


def mark() -> str:
    """Be done at once."""
    return "marked"


def slow() -> str:
    """Take a second."""
    with Path(os.environ["CLERK_LOG"]).open("a") as log:
        log.write("slow\n")
    time.sleep(1)
    return "waited"


def stuck() -> str:
    """Hang for a minute when it is called for the first time."""
    log = Path(os.environ["CLERK_LOG"])
    first = not log.exists()
    log.write_text("stuck")
    time.sleep(60 if first else 0)
    return "freed"


def die() -> str:
    """End the process when it is called for the first time."""
    log = Path(os.environ["CLERK_LOG"])
    if not log.exists():
        log.write_text("died")
        time.sleep(0.5)  # until the result of its sibling is stored
        os._exit(9)
    return "lived"


CALLS: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "pay": [("pay", {"order": 7})],
    "both": [("pay", {"order": 7}), ("mail", {"to": "mira"})],
    "ask": [("ask_human", {"question": "Which colour?"})],
    "slow": [("slow", {})],
    "stuck": [("stuck", {})],
    "die": [("mark", {}), ("die", {})],
    "unsafe": [("mail", {"to": EVIL})],
}


def answer(messages: Sequence[BaseMessage]) -> AIMessage:
    """The calls that a word stands for, then what they gave."""
    place = max(place for place, message in enumerate(messages) if isinstance(message, HumanMessage))
    word = messages[place].text
    results = [message.text for message in messages[place:] if isinstance(message, ToolMessage)]
    if word == "crash":
        raise ValueError("card 4711")
    if word not in CALLS:
        return AIMessage(EVIL if word == "evil" else f"You said {word}.")
    if results:
        return AIMessage(f"Results: {'; '.join(results)}")
    number = len(messages)
    calls = [{"name": name, "args": args, "id": f"{name}-{number}"} for name, args in CALLS[word]]
    return AIMessage("Let me see.", tool_calls=calls)


model = ScriptedModel(answer, chunk_size=3)
parts: dict[str, Any] = {
    "name": "clerk",
    "tools": [pay, mail, mark, slow, stuck, die, ask_human],
    "filters": [filters.approval({"pay": Policy(allowed=("approve", "edit", "reject")), "mail": True})],
}
agent = Agent(model, checkpointer=os.environ.get("SCALLION_DB", "sqlite:///scallion.db"), **parts)
patient = Agent(model, checkpointer=agent.checkpointer, on_message_while_paused="queue", **parts)
obliging = Agent(model, checkpointer=agent.checkpointer, on_message_while_paused="alongside", **parts)
strict = Agent(
    model,
    checkpointer=agent.checkpointer,
    **parts | {"filters": [filters.approval({"pay": Policy(quorum=2), "mail": Policy(expires_in=0.001)})]},
)
separate = Agent(
    model,
    checkpointer=agent.checkpointer,
    **parts | {"filters": [filters.approval({"pay": Policy(not_requester=True)})]},
)
graph = agent.graph
keepless = Agent(ScriptedModel(answer))
elsewhere = Agent(ScriptedModel(answer), checkpointer="sqlite://")
number = 3
