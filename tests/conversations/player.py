"""An agent whose model and tools play a recorded dialogue back, one message a process."""

from __future__ import annotations

from multiprocessing.connection import Connection
from pathlib import Path
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.tools import InjectedToolCallId, StructuredTool
from pydantic import BaseModel, ConfigDict

from scallion import Agent, Approval, Paused, SQLCheckpointer, approve, around_chat, filters, pause, respond

from .dialogues import Dialogue, call_key, plain


class Player(BaseChatModel):
    """Says the recorded answer that comes next, which the history tells, and writes down that it was asked."""

    dialogue: Any
    log: Path

    @property
    def _llm_type(self) -> str:
        return "player"

    def bind_tools(self, tools: Any, **settings: Any) -> Any:
        return self

    def _generate(self, messages: list[BaseMessage], *rest: Any, **settings: Any) -> ChatResult:
        place = sum(isinstance(message, AIMessage) for message in messages)
        _note(self.log, f"model {place}")
        answer = self.dialogue.answers[place].model_copy(update={"id": f"answer-{place}"})
        return ChatResult(generations=[ChatGeneration(message=answer)])


class AnyArguments(BaseModel):
    """Whatever the model gives, and the id of the call."""

    model_config = ConfigDict(extra="allow")
    call_id: Annotated[str, InjectedToolCallId]


def agent_for(dialogue: Dialogue, folder: Path, saver: SQLCheckpointer) -> Agent:
    """Pauses before every tool call and again after its result."""
    log = folder / "log.txt"

    def tool(name: str) -> StructuredTool:
        def play(call_id: Annotated[str, InjectedToolCallId], **arguments: Any) -> str:
            key = call_key(call_id, arguments)
            _note(log, f"tool {key}")
            return dialogue.results[key]

        return StructuredTool(name=name, description=name, func=play, args_schema=AnyArguments)

    return Agent(
        Player(dialogue=dialogue, log=log),
        tools=[tool(name) for name in dialogue.tools],
        filters=[stop_after_results, filters.approval(dict.fromkeys(dialogue.tools, True))],
        checkpointer=saver,
    )


@around_chat
def stop_after_results(request: Any, state: Any, next: Any) -> Any:
    """A person lets the model read the result of a tool."""
    if isinstance(request.messages[-1], ToolMessage):
        pause("May the model go on?")
    return next(request)


def step(dialogue: Dialogue, folder: Path, message: str | None, parent: Connection) -> None:
    """One step of the thread: a new message, or what it waits for is allowed. Tells how the step ended."""
    with SQLCheckpointer(f"sqlite:///{folder / 'threads.db'}") as saver:
        agent = agent_for(dialogue, folder, saver)
        if message is None:
            pending = saver.approvals.list(status="pending", thread="t").items
            result = agent.resume("t", {approval.id: _allow(approval) for approval in pending})
        else:
            result = agent.invoke(message, thread="t")
    parent.send(None if isinstance(result, Paused) else plain(result.messages))


def _allow(approval: Approval) -> Any:
    return approve() if approval.kind == "tool_call" else respond("yes")


def _note(log: Path, line: str) -> None:
    with log.open("a") as file:
        file.write(line + "\n")
