"""`todo`: a list of tasks that the model keeps for itself, by a tool, from turn to turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Literal

from langchain_core.messages import AIMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool
from pydantic import BaseModel

from scallion.errors import ConfigurationError
from scallion.filters.filter import Filter
from scallion.values import ChatReply, ChatRequest, ToolReply, ToolRequest

TOOL = "write_todos"
DESCRIPTION = (
    "Write the list of tasks for the work at hand. It replaces the whole list. Use it for work of three steps or more, "
    "not for a simple request. Mark a task in_progress before you begin it and completed as soon as it is done, "
    "never when it failed or is done in part. Call it at most once at a time."
)
PROMPT = (
    f"For work of many steps keep a list of tasks with the tool {TOOL}, and keep it up to date after each step. "
    "The list is not the answer: write the answer after your last call of it."
)
START: dict[str, Any] = {"todos": [], "doubled": False}
TWICE = f"error: {TOOL} was called more than once at a time, so none of these lists was taken; call it once"


class Todo(BaseModel):
    """One task."""

    content: str
    status: Literal["pending", "in_progress", "completed"]


class Todos(BaseModel):
    """The whole list."""

    todos: list[Todo]


def told(todos: list[dict[str, str]]) -> str:
    """What the model reads of the list that it wrote."""
    return f"the list is now: {json.dumps(todos, ensure_ascii=False)}"


def is_doubled(message: AIMessage) -> bool:
    """Whether the message writes the list more than once: each call would replace what another wrote."""
    return [call["name"] for call in message.tool_calls].count(TOOL) > 1


def _tool(description: str) -> StructuredTool:
    def write(todos: list[Todo]) -> tuple[str, list[dict[str, str]]]:
        plain = [one.model_dump() for one in todos]
        return told(plain), plain

    return StructuredTool.from_function(
        write, name=TOOL, description=description, args_schema=Todos, response_format="content_and_artifact"
    )


class TodoList(Filter):
    """The list is the filter's state; `doubled` says that it was written more than once in this round."""

    init = START
    scope = "thread"

    def __init__(self, name: str, prompt: str | None, description: str) -> None:
        if not (prompt is None or isinstance(prompt, str)) or not isinstance(description, str) or not description:
            raise ConfigurationError(f"filter {name!r}: prompt is a text or None, description is a text")
        super().__init__(name, tools=[_tool(description)])
        self._prompt = [SystemMessage(prompt)] if prompt else []

    def around_chat(
        self, request: ChatRequest, state: Any, next: Callable[[ChatRequest], ChatReply]
    ) -> tuple[ChatReply, dict[str, Any]]:
        """Tell the model of the tool, and find calls that stand in each other's way."""
        told = [] if request.aside else self._prompt
        reply = next(request.replace(messages=[*told, *request.messages]) if told else request)
        return reply, {"doubled": is_doubled(reply.message)}

    def around_tool(
        self, request: ToolRequest, state: Any, next: Callable[[ToolRequest], ToolReply]
    ) -> ToolReply | tuple[ToolReply, dict[str, Any]]:
        """Keep the list that the tool took."""
        if request.call["name"] != TOOL:
            return next(request)
        if state["doubled"]:
            return ToolReply(ToolMessage(TWICE, tool_call_id=request.call["id"], name=TOOL, status="error"))
        reply = next(request)
        taken = reply.message.artifact
        return reply if taken is None else (reply, {"todos": taken})


def todo(*, prompt: str | None = PROMPT, description: str = DESCRIPTION, name: str = "todo") -> Filter:
    """Give the model the tool `write_todos`, and keep its list: `filter_state["todo"]["todos"]`.

    A task is `{"content": text, "status": "pending" | "in_progress" | "completed"}`; each call replaces the whole list,
    so several calls in one round are all refused, and the model reads why. The list stays from turn to turn.
    `prompt` is put behind the agent's system prompts (None: nothing is), `description` is the tool's.
    Raises ConfigurationError.
    """
    return TodoList(name, prompt, description)
