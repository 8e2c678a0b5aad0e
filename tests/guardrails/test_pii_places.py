"""`pii` in places where personal data does not stand as plain text."""

from __future__ import annotations

import asyncio
import json
import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest
from guardrails.canaries import CARD, EMAIL, in_files, leaks
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage
from langchain_core.tools import tool
from pydantic import BaseModel, PrivateAttr, computed_field
from scenes import asks, call

from scallion import Agent, SQLCheckpointer, filters
from scallion.testing import ScriptedModel

GUARD: Any = filters.pii("email", "credit_card", "api_key", "mac_address", "ip")
HIDDEN = {
    "card": "pay with\n4111111111111111",
    "key": "\tAKIAIOSFODNN7EXAMPLE",
    "mac": "\n00:1a:2b:3c:4d:5e",
    "ip": "\n2001:db8:1234::77",
    "mail": "write to\nana@example.com",
    "name": "müller@example.com",
    "deep": json.dumps({"n": 4111111111111111, "mail": "\nmüller@example.com"}),
    "none": "C:\\new\u00fc",
}
SHOWN = {
    "card": "pay with\n[REDACTED_CREDIT_CARD]",
    "key": "\t[REDACTED_API_KEY]",
    "mac": "\n[REDACTED_MAC_ADDRESS]",
    "ip": "\n[REDACTED_IP]",
    "mail": "write to\n[REDACTED_EMAIL]",
    "name": "[REDACTED_EMAIL]",
    "deep": json.dumps({"n": "[REDACTED_CREDIT_CARD]", "mail": "\n[REDACTED_EMAIL]"}),
    "none": "C:\\new\u00fc",
}


def cleaned(message: Any) -> Any:
    """The message as the thread would have it."""
    return GUARD.walk(None).message(message)


@pytest.mark.parametrize("indent", [None, 2])
def test_json_of_a_tool_is_read_as_what_it_stands_for(indent: int | None) -> None:
    """Whatever its escapes, in JSON within JSON too; it is JSON still, in blocks beside each other as well."""
    text = json.dumps(HIDDEN, indent=indent)
    result = cleaned(ToolMessage(text, tool_call_id="c")).content
    assert json.loads(result) == SHOWN
    assert result.count("\n") == text.count("\n")
    several = cleaned(ToolMessage([text, {"type": "text", "text": text}], tool_call_id="c")).content
    assert [json.loads(several[0]), json.loads(several[1]["text"])] == [SHOWN, SHOWN]
    assert cleaned(HumanMessage(text)).content == result


HELD = json.dumps(
    {"env": "A=1\nAKIAIOSFODNN7EXAMPLE", "to": "m\u00fcller@example.com", "c": f"\t{CARD}", "k": "\u2028x"}
)
LOOSE = {
    "lines": f"{HELD}\n{HELD}",
    "cut": f"{HELD[:-1]}\n... truncated",
    "prefix": f"Result: {HELD}",
    "fence": f"```json\n{HELD}\n```",
    "mark": f"\ufeff{HELD}",
    "string": json.dumps(HELD),
    "twice": f"Result: {json.dumps(HELD)}",
    "long": f'{HELD[:-1]}, "n": {"1" * 5000}}}',
    "repr": f"{json.loads(HELD)}",
    "bytes": f"{json.loads(HELD)['env'].encode()} {HELD}",
    "quotes": f'"it is" so: {HELD} "',
}


@pytest.mark.parametrize("text", LOOSE.values(), ids=LOOSE)
def test_what_stands_behind_an_escape_is_found_in_any_text(text: str) -> None:
    """JSON lines, cut off, within a text, as Python shows a dictionary; nothing else changes.

    But for the spelling of letters in the text that is JSON as a whole.
    """
    for made in (ToolMessage(text, tool_call_id="c"), HumanMessage(text), ToolMessage([text, text], tool_call_id="c")):
        shown = "".join(cleaned(made).content)
        assert not re.search("AKIA|example|ller@|4111", shown)
        assert "REDACTED_API_KEY]" in shown
        assert cleaned(cleaned(made)) == cleaned(made)
    shown = cleaned(HumanMessage(text)).content
    assert len(re.split(r"\[REDACTED_\w+\]", shown)) > 3
    assert text == LOOSE["long"] or all(part in text for part in re.split(r"\[REDACTED_\w+\]", shown))


def test_a_value_behind_an_escape_has_the_hash_of_the_value() -> None:
    """As it has where it stands plainly."""
    guard: Any = filters.pii("email", strategy="hash", key="a secret of some length")
    plain, escaped = (
        guard.walk(None).message(HumanMessage(text)).text for text in ("\nm\u00fcller@example.com", HELD + "\n{}")
    )
    assert plain.strip() in escaped


@pytest.mark.parametrize("text", [r"C:\new\users\x40", r"\ud83d\ude00 \ud83d \U0001f600 \ ", r"\\\\\n" * 9])
def test_escapes_that_hide_nothing_stay(text: str) -> None:
    """Paths, halves of characters, rows of backslashes."""
    assert cleaned(HumanMessage(text)).content == text


def test_json_without_anything_found_is_the_same_text() -> None:
    """With its escapes, spaces, names that are there twice; what was clean as a text is read again as JSON."""
    text = '{ "a": "\\u00fc\\/",  "a": [1.50, -0, "C:\\\\new"] }'
    message = ToolMessage(text, tool_call_id="c")
    assert cleaned(message) is message
    spoken = '["\\n4111111111111111"]'
    cleaned(AIMessage(spoken))
    assert cleaned(ToolMessage(spoken, tool_call_id="c")).content == '["\\n[REDACTED_CREDIT_CARD]"]'


@pytest.mark.parametrize("text", [f'{{"to": "{EMAIL}", "to": "x"}}', f'{{"to": "{CARD}', "[" * 200_000 + f'"{EMAIL}'])
def test_json_text_of_calls_is_read_whole(text: str) -> None:
    """A name that is there twice, text that is cut off, and lists that nest deeper than anybody reads."""
    message = AIMessage(
        "",
        invalid_tool_calls=[{"name": "x", "args": text, "id": "1", "error": None, "type": "invalid_tool_call"}],
        additional_kwargs={"function_call": {"name": "x", "arguments": text}},
    )
    shown = cleaned(message)
    assert leaks(repr(shown).encode()) == []
    assert shown.invalid_tool_calls[0]["args"] == shown.additional_kwargs["function_call"]["arguments"]
    assert len(shown.invalid_tool_calls[0]["args"]) > len(text) - 20


def test_a_token_of_another_thread_stands_for_nothing() -> None:
    """What a memory that threads share, or an inner agent, says of its own people reaches no tool as another one."""
    paid: list[str] = []

    @tool
    def pay(to: str) -> str:
        """Pay."""
        paid.append(to)
        return "paid"

    def guarded(*replies: Any, **options: Any) -> Agent:
        guard = filters.pii("email", strategy="tokenise", key="a secret of some length")
        return Agent(ScriptedModel(replies), filters=[guard], **options)

    clerk = guarded(lambda asked: f"{asked[-1].text.split()[-1]} agreed").as_tool("clerk", "Asks people.")
    asks_clerk = asks(call("clerk", "c1", request="Ask bob@example.com"))
    pays = lambda asked: asks(call("pay", "c2", to=asked[-1].text.split()[0]))  # noqa: E731
    agent = guarded(asks_clerk, pays, "Done.", tools=[clerk, pay])
    result = agent.invoke("ana@example.com, zoe@example.com", thread="t")
    assert result.messages[0].text == "<email_1_vcwk>, <email_2_hkrq>"
    assert re.fullmatch("<email_1_[a-z]{4}>", paid[0])


def test_what_is_written_beside_turns_is_clean(sql: SQLCheckpointer, tmp_path: Path) -> None:
    """Titles and tags that somebody gives, and the update of a graph's state."""
    agent = Agent(ScriptedModel(["Hello."]), filters=[filters.pii("email")], checkpointer=sql)
    agent.invoke("Hi", thread="t")
    session = agent.session("t")
    session.rename(f"About {EMAIL}")
    asyncio.run(session.atag("plain", EMAIL))
    assert session.title == "About [REDACTED_EMAIL]"
    assert set(session.tags) == {"plain", "[REDACTED_EMAIL]"}
    session.rename(None)
    graph, config = agent.as_graph(), {"configurable": {"thread_id": "t"}}
    graph.update_state(config, {"messages": [HumanMessage(EMAIL)]})
    asyncio.run(graph.aupdate_state(config, {"messages": [HumanMessage(f"and {EMAIL}")]}))
    texts = [one.text for one in graph.get_state(config).values["messages"]]
    assert texts[2:] == ["[REDACTED_EMAIL]", "and [REDACTED_EMAIL]"]
    assert in_files(tmp_path) == []


@pytest.mark.parametrize("name", ["detail", "status", "format", "signature", "type", "url", "customer_id"])
def test_names_that_blocks_use_hide_nothing_below(name: str) -> None:
    """In data of a block, and of what a provider adds; bytes that are no text of their own neither."""
    data = {"value": {name: EMAIL}, "raw": b"\xff" + EMAIL.encode()}
    message = AIMessage(
        [{"type": "json", **data}], additional_kwargs={"more": data}, response_metadata={"error": {name: EMAIL}}
    )
    shown = cleaned(message)
    assert leaks(repr(shown).encode()) == []
    assert shown.additional_kwargs["more"]["raw"] == b"\xff[REDACTED_EMAIL]"


@dataclass(frozen=True)
class Made:
    """A field that its caller does not give, one that is never set, and a memory."""

    who: str
    told: str = field(init=False)
    unset: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "told", f"it is {EMAIL}")

    @cached_property
    def twice(self) -> str:
        """Twice the name."""
        return f"{self.who} {self.who}"


@dataclass(frozen=True, slots=True)
class Narrow:
    """The same in slots."""

    who: str
    told: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "told", f"it is {EMAIL}")


class Model(BaseModel):
    """A field that is computed, and remembered."""

    who: str

    @computed_field  # type: ignore[prop-decorator]
    @cached_property
    def twice(self) -> str:
        """Twice the name."""
        return f"{self.who} {self.who}"


class Secretive(BaseModel):
    """A field that is computed of what is no field."""

    _who: str = PrivateAttr(default=EMAIL)

    @computed_field  # type: ignore[prop-decorator]
    @property
    def told(self) -> str:
        """What nobody can take out."""
        return self._who


@pytest.mark.parametrize("who", ["x", EMAIL])
@pytest.mark.parametrize("kind", [Made, Narrow, Model])
def test_fields_that_nobody_gave_are_cleaned(kind: Any, who: str) -> None:
    """Those of `init=False`, of slots, and computed ones that were remembered; the object itself stays as it was."""
    one = kind(who=who)
    twice = getattr(one, "twice", None)
    artifact = cleaned(ToolMessage("", tool_call_id="c", artifact=one)).artifact
    shown = artifact.model_dump_json() if isinstance(artifact, BaseModel) else repr(vars_of(artifact))
    assert type(artifact) is kind
    assert EMAIL not in shown
    assert "REDACTED" in shown or (kind, who) == (Model, "x")
    assert getattr(one, "twice", None) == twice


def vars_of(one: Any) -> dict[str, Any]:
    """All that it holds."""
    names = [*getattr(one, "__slots__", ()), *getattr(one, "__dict__", ())]
    return {name: getattr(one, name) for name in names}


def test_a_computed_field_that_nobody_can_clean_passes_nowhere() -> None:
    """It is of no field, so the walk fails, and with it the result."""
    with pytest.raises(ValueError, match="computed"):
        cleaned(ToolMessage("", tool_call_id="c", artifact=Secretive()))
