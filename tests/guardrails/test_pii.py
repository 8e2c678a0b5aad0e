"""`pii`: what is found leaves no call raw, in the four modes and over a resume."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from guardrails.canaries import ANSWERED, BIG, CALLED, EMAIL, FETCHED, in_error, in_files, in_values
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from modes import Drive, delivered
from scenes import asks, call, heard

from scallion import (
    Agent,
    Blocked,
    Completed,
    ConfigurationError,
    FilterError,
    GuardActed,
    ModelError,
    Paused,
    SQLCheckpointer,
    ToolCallDelta,
    WrongKey,
    approve,
    edit,
    filters,
    reject,
    respond,
)
from scallion.filters import Rule
from scallion.testing import ScriptedModel

KEY = "a secret of some length"
"""The mark of tokens of the thread "t" under it is `rdht`."""


def _read_into(events: list[Any], stream: Any) -> None:
    for event in stream:
        events.append(event)


class Post:
    """A tool that writes down what it was given."""

    def __init__(self, fails: bool = False) -> None:
        self.given: list[Any] = []
        self.fails = fails

    @property
    def tools(self) -> list[Any]:
        """The tool."""

        @tool(response_format="content_and_artifact")
        def post(to: str, body: dict[str, Any] | None = None) -> tuple[str, Any]:
            """Send a letter."""
            self.given.append((to, body))
            if self.fails:
                raise ValueError(f"no such address: {FETCHED}")
            return f"sent; {FETCHED} reads it too", {"copy": [FETCHED, {FETCHED: BIG}]}

        return [post]


def story() -> ScriptedModel:
    """A model that says, calls and answers with canaries."""
    first = asks(call("post", to=CALLED, body={"cards": [BIG, True, 1.5], CALLED: "x"}), text=f"I write to {ANSWERED}.")
    return ScriptedModel([first, f"Done, {ANSWERED} knows."], chunk_size=3)


def guarded(model: Any, *more: Any, **options: Any) -> Agent:
    """An agent that redacts e-mail addresses and cards."""
    post = options.pop("post", None) or Post()
    return Agent(model, tools=post.tools, filters=[*more, filters.pii("email", "credit_card")], **options)


def test_nothing_raw_is_heard_stored_or_delivered(drive: Drive, sql: SQLCheckpointer, tmp_path: Path) -> None:
    """A whole turn with an approval in its middle: the model, the tables, the events and the result are clean."""
    model, post = story(), Post()
    driver = drive(guarded(model, filters.approval(default=True), checkpointer=sql, post=post))
    paused, events = driver.start([HumanMessage(f"I am {EMAIL}.", name=EMAIL)], thread="t")
    assert isinstance(paused, Paused)
    (asked,) = paused.approvals
    assert asked.args == {
        "to": "[REDACTED_EMAIL]",
        "body": {"cards": ["[REDACTED_CREDIT_CARD]", True, 1.5], "[REDACTED_EMAIL]": "x"},
    }
    result, more = driver.resume("t", approve())
    assert isinstance(result, Completed)
    assert [text for _, text in heard(result.messages)] == [
        "I am [REDACTED_EMAIL].",
        "I write to [REDACTED_EMAIL].",
        "sent; [REDACTED_EMAIL] reads it too",
        "Done, [REDACTED_EMAIL] knows.",
    ]
    artifact = result.messages[2].artifact
    assert artifact == {"copy": ["[REDACTED_EMAIL]", {"[REDACTED_EMAIL]": "[REDACTED_CREDIT_CARD]"}]}
    assert post.given == [(asked.args["to"], asked.args["body"])]
    assert result.tool_calls[0]["args"] == asked.args
    values = [paused, *events, result, *more, *model.calls, sql.sessions.get("t"), sql.approvals.list(status=None)]
    assert in_values(values) == []
    assert in_files(tmp_path) == []
    if driver.streams:
        assert delivered(more) == result.answer
        found = [(one.place, one.found) for one in (*events, *more) if isinstance(one, GuardActed)]
        assert found[0] == ("input", {"email": 2})
        assert ("tool_args", {"email": 2, "credit_card": 1}) in found
        deltas = "".join(one.args or "" for one in events if isinstance(one, ToolCallDelta))
        assert "[REDACTED_CREDIT_CARD]" in deltas


def test_apply_to_says_where(drive: Drive) -> None:
    """What is not named is left as it is."""
    post = Post()
    guard = filters.pii("email", "credit_card", apply_to=("tool_results",))
    result, _ = drive(Agent(story(), tools=post.tools, filters=[guard])).start(f"I am {EMAIL}.")
    texts = [text for _, text in heard(result.messages)]
    assert texts[0] == f"I am {EMAIL}."
    assert "REDACTED" in texts[2]
    assert post.given[0][0] == CALLED
    assert in_values([result.messages[2]]) == []


def test_errors_are_clean(drive: Drive, sql: SQLCheckpointer, tmp_path: Path) -> None:
    """A tool's exception as its result, a provider's as the cause of the ModelError; classes stay."""
    failing = ScriptedModel([asks(call("post", to="x")), OSError(2, f"cannot say {ANSWERED}", EMAIL)])
    driver = drive(guarded(failing, checkpointer=sql, post=Post(fails=True)))
    with pytest.raises(ModelError) as caught:
        driver.start("Hello", thread="t")
    assert isinstance(caught.value.__cause__, OSError)
    assert in_error(caught.value) == []
    (result,) = [
        one for one in sql.get({"configurable": {"thread_id": "t"}})["channel_values"]["messages"] if one.type == "tool"
    ]
    assert result.text == "error: ValueError: no such address: [REDACTED_EMAIL]"
    assert in_files(tmp_path) == []


@pytest.mark.parametrize("place", ["input", "output", "tool_args", "tool_results"])
def test_a_block_leaves_nothing_behind(drive: Drive, sql: SQLCheckpointer, tmp_path: Path, place: str) -> None:
    """Blocked tells types and counts; the thread is as it was, and the next turn works."""
    first = {
        "output": AIMessage(f"Ask {ANSWERED}, or {CALLED}"),
        "tool_args": asks(call("post", to=CALLED)),
        "tool_results": asks(call("post", to="x")),
    }
    replies = [] if place == "input" else [first[place]]
    model = ScriptedModel([*replies, "Hello.", "And again."])
    guard = filters.pii("email", strategy="block", apply_to=(place,))
    driver = drive(Agent(model, tools=Post().tools, filters=[guard], checkpointer=sql))
    with pytest.raises(Blocked) as caught:
        driver.start(f"I am {EMAIL}" if place == "input" else "Hi", thread="t")
    assert caught.value.guard == "pii"
    assert set(caught.value.findings) == {"email"}
    assert in_error(caught.value) == []
    assert in_files(tmp_path) == [] or place in ("tool_results",)
    if place != "tool_results":
        assert sql.sessions.list().items == []
        result, _ = driver.start("Good morning", thread="t")
        assert heard(result.messages) == [("human", "Good morning"), ("ai", "Hello.")]
    else:  # that the tool ran is known
        result, _ = driver.start("Good morning", thread="t")
        assert [kind for kind, _ in heard(result.messages)] == ["human", "ai", "tool", "human", "ai"]
        assert in_files(tmp_path) == []


def test_a_blocked_turn_is_taken_back_from_a_thread(drive: Drive, sql: SQLCheckpointer) -> None:
    """What was there before stays, and nothing of the turn is added."""
    model = ScriptedModel(["Hello.", f"Ask {ANSWERED}", "Fine."])
    driver = drive(Agent(model, filters=[filters.pii("email", strategy="block")], checkpointer=sql))
    driver.start("Hi", thread="t")
    with pytest.raises(Blocked):
        driver.start("Whom?", thread="t")
    assert sql.sessions.get("t").status != "running"
    result, _ = driver.start("Well?", thread="t")
    assert [text for _, text in heard(result.messages)] == ["Hi", "Hello.", "Well?", "Fine."]


def test_nothing_of_a_blocked_text_is_delivered() -> None:
    """The stream ends before the first character of what was found."""
    model = ScriptedModel([f"You may ask {ANSWERED} about it."], chunk_size=1)
    stream = Agent(model, filters=[filters.pii("email", strategy="block")]).stream("Hi")
    events: list[Any] = []
    with pytest.raises(Blocked):
        _read_into(events, stream)
    assert delivered(events) in ("You may ask", "You may ask ")


class TestTokens:
    """The strategy tokenise."""

    def test_tools_have_the_values_and_nobody_else(self, drive: Drive, sql: SQLCheckpointer, tmp_path: Path) -> None:
        """Over a pause and a resume by an agent that was built anew; approvals show the tokens."""
        post = Post()

        def build() -> Agent:
            first = asks(call("post", to="<email_1_omsd>", body={"also": "<email_1_omsd>, <email_9_omsd>"}))
            model = ScriptedModel([first] if not models else ["Told <email_1_omsd> and <email_2_sdko>."])
            models.append(model)
            guard = filters.pii("email", "credit_card", strategy="tokenise", key=KEY)
            return Agent(model, tools=post.tools, filters=[filters.approval(default=True), guard], checkpointer=sql)

        models: list[ScriptedModel] = []
        paused, events = drive(build()).start(f"Write to {EMAIL}", thread="t")
        assert isinstance(paused, Paused)
        assert paused.approvals[0].args["to"] == "<email_1_omsd>"
        result, more = drive(build()).resume("t", approve())
        assert post.given == [(EMAIL, {"also": f"{EMAIL}, <email_9_omsd>"})]
        assert result.messages[2].text == "sent; <email_2_sdko> reads it too"
        assert result.answer == "Told <email_1_omsd> and <email_2_sdko>."
        assert in_values([*events, *more, result, *(one.calls for one in models)]) == []
        assert in_files(tmp_path) == []

    def test_numbers_are_stable_in_a_thread(self, drive: Drive, sql: SQLCheckpointer) -> None:
        """The same value has the same token in a later turn, and another one gets a number that was never used."""
        model = ScriptedModel(["a", "b", "c"])
        driver = drive(Agent(model, filters=[filters.pii("email", strategy="tokenise", key=KEY)], checkpointer=sql))
        driver.start("one@example.com", thread="t")
        driver.start("two@example.com one@example.com", thread="t")
        driver.start("two@example.com", thread="other")
        texts = [asked[-1].text for asked in model.calls]
        assert texts[:2] == ["<email_1_pezu>", "<email_2_tkun> <email_1_pezu>"]
        assert re.fullmatch("<email_1_[a-z]{4}>", texts[2])
        assert texts[2] != texts[0]

    def test_calls_side_by_side_never_share_a_number(self, drive: Drive, sql: SQLCheckpointer) -> None:
        """Each call of a batch finds a value of its own."""

        @tool
        def look(n: int) -> str:
            """Look somebody up."""
            return f"person{n}@example.com and guest{n}@example.com"

        batch = asks(*(call("look", f"c{n}", n=n) for n in range(4)))
        model = ScriptedModel([batch, "Done", "And"])
        guard = filters.pii("email", strategy="tokenise", key=KEY)
        driver = drive(Agent(model, tools=[look], filters=[guard], checkpointer=sql))
        result, _ = driver.start("Go", thread="t")
        texts = [one.text for one in result.messages if isinstance(one, ToolMessage)]
        tokens = [token for text in texts for token in text.split(" and ")]
        assert len(set(tokens)) == 8
        assert len(result.filter_state["pii"]["vault"]) == 8
        again, _ = driver.start("person2@example.com", thread="t")  # all are sealed with the salt of the thread
        assert again.messages[-2].text == tokens[4]

    def test_the_caller_may_have_the_answer_with_its_values(
        self, drive: Drive, sql: SQLCheckpointer, tmp_path: Path
    ) -> None:
        """And nothing else has it, not the thread either."""
        model = ScriptedModel(["Hello <email_1_omsd>!"], chunk_size=2)
        guard = filters.pii("email", strategy="tokenise", key=KEY, restore=("answer",))
        result, events = drive(Agent(model, filters=[guard], checkpointer=sql)).start(f"I am {EMAIL}", thread="t")
        assert result.answer == f"Hello {EMAIL}!"
        assert events == [] or delivered(events) == result.answer
        assert in_files(tmp_path) == []

    @pytest.mark.parametrize("guard_first", [True, False])
    def test_an_answer_that_a_person_released_has_its_values_in_the_stream_too(
        self, drive: Drive, sql: SQLCheckpointer, guard_first: bool
    ) -> None:
        """Nothing of the loop runs any more when the turn goes on."""
        guard = filters.pii("email", strategy="tokenise", key=KEY, restore=("answer",))
        stack = [guard, filters.review_answer()] if guard_first else [filters.review_answer(), guard]
        driver = drive(Agent(ScriptedModel(["Sent to <email_1_omsd>"], chunk_size=5), filters=stack, checkpointer=sql))
        driver.start(f"I am {EMAIL}", thread="t")
        result, events = driver.resume("t", approve())
        assert result.answer == f"Sent to {EMAIL}"
        assert events == [] or delivered(events) == result.answer

    def test_an_edit_reaches_the_tool(self, drive: Drive, sql: SQLCheckpointer) -> None:
        """What a person typed is what runs; its record is clean."""
        post = Post()
        guard = filters.pii("email", "credit_card", strategy="tokenise", key=KEY)
        model = ScriptedModel([asks(call("post", to="<email_1_omsd>")), "Done"])
        agent = Agent(model, tools=post.tools, filters=[filters.approval(default=True), guard], checkpointer=sql)
        driver = drive(agent)
        driver.start("Write", thread="t")
        result, _ = driver.resume("t", edit({"to": CALLED}))
        assert post.given[0][0] == CALLED
        assert in_values([result.tool_calls, result.messages]) == []


@pytest.mark.parametrize("again", ["edited", "deleted", "renamed guard", "another program"])
def test_a_token_never_stands_for_somebody_else(sql: SQLCheckpointer, again: str) -> None:
    """Whatever became of what the thread remembers: a rule, a cached answer or a message may have the token still."""

    def agent(*guards: Any) -> Agent:
        return Agent(ScriptedModel(["ok", "ok", "ok"]), filters=guards, checkpointer=sql)

    guard = partial(filters.pii, "email", strategy="tokenise", key=KEY)
    session = agent(guard()).session("t")
    first = session.send("ana@example.com").messages[0].text
    if again == "edited":
        session.edit_message(session.messages[0].id, "bob@example.com")
    else:
        if again == "deleted":
            session.delete()
        if again == "another program":
            agent().session("t").send("hello")
        agent(guard(name="other" if again == "renamed guard" else "pii")).session("t").send("bob@example.com")
    second = session.messages[-2].text
    assert re.fullmatch("<email_[12]_[a-z]{4}>", second)
    assert second != first
    if again == "another program":
        assert session.send("ana@example.com").messages[-2].text == first


def test_tokens_need_their_key(tmp_path: Path) -> None:
    """A resume by another saver and agent has the values with the same key only; with another one nothing runs."""
    post = Post()

    def build(*replies: Any, key: str) -> Agent:
        guard = filters.pii("email", strategy="tokenise", key=key)
        gate = filters.approval(default=True)
        database = f"sqlite:///{tmp_path / 'agent.db'}"
        return Agent(ScriptedModel(replies), tools=post.tools, filters=[gate, guard], checkpointer=database)

    build(asks(call("post", to="<email_1_omsd>")), key=KEY).invoke(f"Write to {EMAIL}", thread="t")
    with pytest.raises(WrongKey) as caught:
        build(key=KEY + "!").resume("t", approve())
    assert in_error(caught.value) == []
    assert post.given == []
    build("Done", key=KEY).resume("t")
    assert post.given == [(EMAIL, None)]
    assert in_files(tmp_path) == []


def test_two_guards_in_one_stack(drive: Drive, sql: SQLCheckpointer, tmp_path: Path) -> None:
    """Each takes out what is its own, in streams too."""
    second = filters.pii("credit_card", strategy="mask", name="cards")
    first = asks(call("post", to=CALLED, body={"card": BIG}), text=f"{ANSWERED} has 4111 1111 1111 1111, ok")
    model = ScriptedModel([first, "Done."], chunk_size=3)
    agent = Agent(model, tools=Post().tools, filters=[filters.pii("email"), second], checkpointer=sql)
    result, events = drive(agent).start(f"I am {EMAIL}", thread="t")
    assert result.messages[1].text == "[REDACTED_EMAIL] has **** **** **** 1111, ok"
    assert in_values([result, *events, model.calls]) == []
    assert in_files(tmp_path) == []
    if events:
        deltas = "".join(one.args or "" for one in events if isinstance(one, ToolCallDelta))
        assert json.loads(deltas) == result.messages[1].tool_calls[0]["args"]


@pytest.mark.parametrize("decision", [respond(f"I told {FETCHED} myself"), reject(f"not to {FETCHED}")], ids=str)
def test_what_a_person_answers_is_clean_in_the_thread(drive: Drive, sql: SQLCheckpointer, decision: Any) -> None:
    """The decision itself is kept as it was given."""
    model = ScriptedModel([asks(call("post", to="x")), "Fine."])
    driver = drive(guarded(model, filters.approval(default=True), checkpointer=sql))
    driver.start("Write", thread="t")
    result, events = driver.resume("t", decision)
    assert in_values([result, *events, *model.calls]) == []
    assert "[REDACTED_EMAIL]" in result.messages[2].text


def test_what_waits_for_its_turn_is_clean_too(drive: Drive, sql: SQLCheckpointer, tmp_path: Path) -> None:
    """Messages that are queued behind a pause; what is to be a token becomes one when its turn comes."""
    post = Post()
    model = ScriptedModel([asks(call("post", to="x")), "Sent.", "Hello <email_1_sdko>."])
    guard = filters.pii("credit_card", email="tokenise", key=KEY)
    approval = filters.approval(default=True)
    options = {"checkpointer": sql, "on_message_while_paused": "queue"}
    driver = drive(Agent(model, tools=post.tools, filters=[approval, guard], **options))
    driver.start("Send", thread="t")
    waiting, _ = driver.start(f"I am {EMAIL}, {BIG}", thread="t")
    assert isinstance(waiting, Paused)
    assert waiting.queued == 1
    assert in_files(tmp_path) == []
    driver.resume("t", approve())
    assert model.calls[-1][-1].text == "I am <email_2_omsd>, [REDACTED_CREDIT_CARD]"
    assert in_files(tmp_path) == []


def test_metadata_and_leading_system_messages_are_clean(drive: Drive, sql: SQLCheckpointer, tmp_path: Path) -> None:
    """What the caller's config has the saver keep."""
    model = ScriptedModel(["Hello"])
    driver = drive(guarded(model, checkpointer=sql))
    config = {"metadata": {"from": EMAIL}, "tags": [EMAIL]}
    driver.start([SystemMessage(f"You serve {EMAIL}"), HumanMessage("Hi")], thread="t", config=config)
    assert in_files(tmp_path) == []
    assert in_values(model.calls) == []


def crashes(text: str) -> Any:
    """A detector that fails, and quotes what it failed on."""
    raise ValueError(text)


@pytest.mark.parametrize(
    ("detector", "told"),
    [
        (crashes, "'staff' raised ValueError"),
        (lambda text: None, "no list of places"),
        (lambda text: [(5, 2)], "5 to 2"),
        (lambda text: [(0, 1000)], "0 to 1000"),
        (lambda text: [{"from": 1}], "start and end"),
    ],
)
def test_a_detector_that_fails_fails_the_turn(sql: SQLCheckpointer, tmp_path: Path, detector: Any, told: str) -> None:
    """PII-17: nothing passes, in or out, and the error names the detector and does not tell what it failed on."""
    model = ScriptedModel(["Hello", f"{ANSWERED} it is", f"{ANSWERED} it is"])
    agent = Agent(model, filters=[filters.pii(detectors={"staff": detector})], checkpointer=sql)
    outside = filters.pii(detectors={"staff": detector}, apply_to=("output",))
    for turn in (
        lambda: agent.invoke(f"I am {EMAIL}", thread="t"),
        lambda: list(Agent(model, filters=[outside]).stream("Hi")),
        lambda: asyncio.run(Agent(model, filters=[outside]).ainvoke("Hi")),
    ):
        with pytest.raises(FilterError, match="filter 'pii' failed in detection") as caught:
            turn()
        assert told in str(caught.value)
        assert in_error(caught.value) == []
    assert in_files(tmp_path) == []


def test_other_filters_cannot_bring_it_in(drive: Drive, sql: SQLCheckpointer, tmp_path: Path) -> None:
    """What a filter adds to a turn, to a model call or to the answer is clean too."""

    @filters.around_turn
    def remembers(request: Any, state: Any, next: Any) -> Any:
        result = next(request.replace(messages=[HumanMessage(f"Before: {EMAIL}"), *request.messages]))
        return result.replace(message=AIMessage(f"{result.answer} {ANSWERED}"))

    @filters.around_chat
    def retrieves(request: Any, state: Any, next: Any) -> Any:
        return next(request.replace(messages=[*request.messages, HumanMessage(FETCHED)]))

    model = ScriptedModel(["Hello"])
    result, _ = drive(guarded(model, remembers, retrieves, checkpointer=sql)).start("Hi", thread="t")
    assert result.answer == "Hello [REDACTED_EMAIL]"
    assert in_values([result, model.calls]) == []
    assert in_files(tmp_path) == []


def test_blocks_keep_type_and_order() -> None:
    """PII-22: pictures and their addresses stay, and what lies in two blocks is found."""
    picture = {"type": "image_url", "image_url": {"url": f"https://example.com/{EMAIL}"}}
    content = [{"type": "text", "text": f"I am {EMAIL[:9]}"}, picture, {"type": "text", "text": f"{EMAIL[9:]}, well"}]
    model = ScriptedModel(["Hello"])
    guarded(model).invoke([HumanMessage(content)])
    assert model.calls[0][0].content == [
        {"type": "text", "text": "I am [REDACTED_EMAIL]"},
        picture,
        {"type": "text", "text": ", well"},
    ]


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({}, "nothing to find"),
        ({"types": ["emial"]}, "emial"),
        ({"types": [7]}, "int"),
        ({"types": ["email"], "strategy": "shred"}, "shred"),
        ({"types": ["email"], "apply_to": "input"}, "apply_to"),
        ({"types": ["email"], "apply_to": ["inputs"]}, "'inputs'"),
        ({"types": ["email"], "apply_to": []}, "apply_to is empty"),
        ({"types": ["email"], "aply_to": ["input"]}, "'aply_to'"),
        ({"types": ["email"], "restore": ["tools"]}, "restore"),
        ({"types": ["email"], "detectors": ["x"]}, "detectors"),
        ({"types": ["email"], "strategy": "hash"}, "SCALLION_PII_KEY"),
        ({"types": ["email"], "strategy": "tokenise"}, "key="),
        ({"types": ["email"], "key": "short"}, "16 bytes"),
        ({"types": [Rule("email"), Rule("email")]}, "two rules"),
        ({"detectors": {"staff": r"(a)\1"}}, "'staff'"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the filter is built, with its name."""
    monkeypatch.delenv("SCALLION_PII_KEY", raising=False)
    types = options.pop("types", [])
    with pytest.raises(ConfigurationError, match="filter 'guard'") as caught:
        filters.pii(*types, name="guard", **options)
    assert told in str(caught.value)


def test_tokens_say_which_extra_they_want(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(ConfigurationError) as caught:
        filters.pii("email", strategy="tokenise", key="a secret of some length")
    told = "filter 'pii': tokenise needs the module cryptography: pip install 'scallion[encryption]'"
    assert str(caught.value) == told


def test_the_key_may_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """And a hash under another key is another one."""
    monkeypatch.setenv("SCALLION_PII_KEY", KEY)
    model = ScriptedModel(["a", "b"])
    Agent(model, filters=[filters.pii("email", strategy="hash")]).invoke(EMAIL)
    Agent(model, filters=[filters.pii("email", strategy="hash", key=KEY + "!")]).invoke(EMAIL)
    first, second = (asked[-1].text for asked in model.calls)
    assert first.startswith("<email_hash:")
    assert first != second


def test_a_block_in_a_thread_that_was_there_deletes_nothing(sql: SQLCheckpointer, memory: Any) -> None:
    """One that was rewound to its beginning keeps what it left behind; another saver's thread is emptied."""
    model = ScriptedModel(["Hello.", f"Ask {ANSWERED}", "Fine."])
    guard = filters.pii("email", strategy="block")
    agent = Agent(model, filters=[guard], checkpointer=sql)
    agent.invoke("Hi", thread="t")
    session = agent.session("t")
    session.rewind(before=session.history[0])
    with pytest.raises(Blocked):
        agent.invoke("Whom?", thread="t")
    assert [one.text for one in session.rewound[-1].messages] == ["Hi", "Hello."]
    assert heard(agent.invoke("Well?", thread="t").messages) == [("human", "Well?"), ("ai", "Fine.")]
    other = Agent(ScriptedModel([f"Ask {ANSWERED}", "Fine."]), filters=[guard], checkpointer=memory)
    with pytest.raises(Blocked):
        other.invoke("Whom?", thread="t")
    assert heard(other.invoke("Well?", thread="t").messages) == [("human", "Well?"), ("ai", "Fine.")]
