"""`filters.moderation`: what a check flags is kept nowhere, whoever said it."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from checkpoints.databases import database, migrated, server
from guardrails.canaries import dumped, leaks
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import StructuredTool
from modes import Drive, Driver, delivered
from scenes import Desk, asks, call, heard, results, whole

from scallion import (
    Agent,
    Blocked,
    Completed,
    ConfigurationError,
    Filter,
    FilterError,
    GuardActed,
    LimitExceeded,
    Limits,
    ModelError,
    Paused,
    SQLCheckpointer,
    Token,
    ToolFailure,
    ToolReply,
    ToolRequest,
    TurnRequest,
    approve,
    compose,
    filters,
    pause,
)
from scallion.filters import Verdict
from scallion.filters.moderating import Thresholds
from scallion.filters.texts import texts
from scallion.testing import ScriptedModel

__all__ = ["database", "migrated", "server"]

BAD = "vile-canary"
EXITS = ("end", "error", "replace")
REFUSAL = "I cannot help with that."
REMOVED = "[removed by moderation]"


class Check:
    """Flags what has the word, and notes what it is asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def __call__(self, text: str) -> Any:
        self.asked.append(text)
        return Verdict(True, ("hate",), {"hate": 0.9}) if BAD in text else Verdict(False)


class Batch(Check):
    """The same for a list of texts, as an `async def`."""

    batch = True

    async def __call__(self, texts: Sequence[str]) -> Any:  # type: ignore[override]
        await asyncio.sleep(0)
        return [super(Batch, self).__call__(text) for text in texts]


CHECKS: list[Callable[[], Check]] = [Check, Batch]


def agent_of(saver: Any, replies: Any, *guards: Any, tools: Any = (), **options: Any) -> Agent:
    return Agent(ScriptedModel(replies), tools=tools, filters=guards, checkpointer=saver, **options)


def kept(agent: Agent) -> list[tuple[str, str]]:
    """What the thread holds."""
    return heard(agent.graph.get_state({"configurable": {"thread_id": "t"}}).values.get("messages", []))


def stored(place: Path) -> bool:
    """Whether the word is in a file of the database."""
    return any(leaks(one.read_bytes(), [BAD]) for one in place.glob("agent.db*"))


def outcome(driver: Any, verb: str, *args: Any, **options: Any) -> tuple[Any, list[Any]]:
    """The result, or the error that stands for it."""
    try:
        return getattr(driver, verb)(*args, **options)
    except (Blocked, FilterError) as error:
        return error, []


def test_the_word_would_be_found(sql: SQLCheckpointer, tmp_path: Path) -> None:
    """Without the filter it is in the files: the tests can fail."""
    agent_of(sql, ["fine"]).invoke(BAD, thread="t")
    assert stored(tmp_path)


@pytest.mark.parametrize("exit", EXITS)
class TestPlaces:
    """Input, output and results of tools, in the four modes; each leaves nothing in the database."""

    @pytest.mark.parametrize("make", CHECKS)
    def test_input(self, drive: Drive, sql: SQLCheckpointer, tmp_path: Path, exit: Any, make: Any) -> None:
        agent = agent_of(sql, ["fine", "again"], filters.moderation(make(), exit=exit))
        driver = drive(agent)
        picture = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}
        given = [HumanMessage("hello"), HumanMessage([{"type": "text", "text": f"a {BAD} word"}, picture], id="h2")]
        result, events = outcome(driver, "start", given, thread="t")
        assert not stored(tmp_path)
        if exit == "error":
            assert (result.guard, result.findings) == ("moderation", {"hate": 1})
            assert BAD not in str(result)
        elif exit == "end":
            assert (result.answer, kept(agent)) == (REFUSAL, [("human", "hello"), ("ai", REFUSAL)])
            assert result.message.response_metadata["moderation"]["found"] == {"hate": 1}
        else:
            assert result.answer == "fine"
            (sent,) = agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"][1:2]
            assert (sent.id, sent.content) == ("h2", [{"type": "text", "text": REMOVED}, picture])
        if events:
            acted = [one for one in events if isinstance(one, GuardActed)]
            assert acted == [
                GuardActed("moderation", "input", "replace" if exit == "replace" else "block", {"hate": 1})
            ]
            assert delivered(events) == result.answer
        assert driver.start("next", thread="t")[0].answer in ("fine", "again"), "the next turn works"

    @pytest.mark.parametrize("make", CHECKS)
    def test_output(self, drive: Drive, sql: SQLCheckpointer, tmp_path: Path, exit: Any, make: Any) -> None:
        """Reasoning, text and the arguments of a call: nothing of it is streamed, and the call does not run."""
        desk = Desk()
        thinks = [{"type": "reasoning", "reasoning": f"{BAD} thought"}, {"type": "text", "text": "fine"}]
        says = AIMessage(thinks, id="a1", tool_calls=[call("mail", "c1", to=BAD), call("refund", "c2", order=1)])
        agent = agent_of(sql, [says, "done"], filters.moderation(make(), exit=exit), tools=desk.tools)
        result, events = outcome(drive(agent), "start", "q", thread="t")
        assert not stored(tmp_path)
        assert BAD not in whole(events)
        if exit == "error":
            assert result.findings == {"hate": 1}
        elif exit == "end":
            assert (result.answer, desk.ran, result.usage["model_calls"]) == (REFUSAL, [], 1)
            assert kept(agent) == [("human", "q"), ("ai", REFUSAL)]
            assert delivered(events) in (REFUSAL, "")
        else:
            assert (result.answer, desk.ran) == ("done", ["refund 1"]), "the turn goes on without the flagged call"
            assert kept(agent)[1:] == [("ai", REMOVED), ("tool", "refunded 1"), ("ai", "done")]
            assert result.messages[1].id == "a1"

    @pytest.mark.parametrize("make", CHECKS)
    def test_tool_results(self, drive: Drive, sql: SQLCheckpointer, tmp_path: Path, exit: Any, make: Any) -> None:
        """Their artifacts and writes too, also in the ledger of a tool that runs once; a sibling's result stays."""
        desk = Desk()

        def look() -> tuple[str, Any]:
            """Look."""
            desk.ran.append("look")
            return f"found {BAD}", {"raw": BAD}

        tools = [desk.refund(), StructuredTool.from_function(look, response_format="content_and_artifact")]
        guard = filters.moderation(make(), on=["tool_results"], exit=exit)
        says = [asks(call("look", "c1"), call("refund", "c2", order=1)), "done"]
        agent = agent_of(sql, says, guard, filters.once("look"), tools=tools)
        driver = drive(agent)
        result, events = outcome(driver, "start", "q", thread="t")
        assert not stored(tmp_path)
        assert BAD not in whole(events)
        assert results(agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]) == [
            REMOVED,
            "refunded 1",
        ]
        assert sorted(desk.ran) == ["look", "refund 1"]
        if exit == "error":
            assert result.findings == {"hate": 1}
        else:
            assert result.answer == {"end": REFUSAL, "replace": "done"}[exit]
        assert driver.start("next", thread="t")[0].answer == "done" if exit != "replace" else True

    def test_a_message_that_waits_in_a_queue(
        self, drive: Drive, sql: SQLCheckpointer, tmp_path: Path, exit: Any
    ) -> None:
        """It is judged before it is kept."""
        desk = Desk()
        stack = [filters.moderation(Check(), exit=exit), filters.approval({"refund": True})]
        says = [asks(call("refund", order=1)), "done", "second"]
        agent = agent_of(sql, says, *stack, tools=desk.tools, on_message_while_paused="queue")
        driver = drive(agent)
        driver.start("q", thread="t")
        result, events = outcome(driver, "start", [SystemMessage(f"be {BAD}"), HumanMessage("and this")], thread="t")
        assert not stored(tmp_path)
        if exit == "error":
            assert result.findings == {"hate": 1}
        elif exit == "end":
            assert isinstance(result, Completed)
            assert (result.answer, delivered(events)) == (REFUSAL, REFUSAL if driver.streams else "")
        else:
            assert isinstance(result, Paused)
            assert result.queued == 1
        assert driver.resume("t", approve())[0].answer == ("second" if exit == "replace" else "done")
        assert desk.ran == ["refund 1"]


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
@pytest.mark.parametrize("exit", EXITS)
def test_a_dump_of_postgresql_holds_nothing(database: str, exit: Any) -> None:
    """After turns that people stopped in the middle: input in one, the answer in the other."""
    guard = filters.moderation(Check(), on=("input", "output", "tool_results"), exit=exit)
    stack, desk = [guard, filters.approval({"refund": True}), filters.review_answer()], Desk()
    with SQLCheckpointer(database) as saver:
        agent = agent_of(saver, [asks(call("refund", order=1)), BAD, "fine"], *stack, tools=desk.tools)
        for place, said in enumerate((BAD, "hello")):
            outcome(Driver(agent, "invoke"), "finish", said, thread=f"t{place}")
    assert leaks(dumped(database), [BAD]) == []
    told = {"end": REFUSAL, "error": "hello", "replace": REMOVED}[exit]
    assert leaks(dumped(database), [told]) == [told], "what is there is found"


class TestOnce:
    """The verdict is asked for once a text, also over pauses; in one call, where the check takes that."""

    def test_a_resume_asks_nothing_again(self, drive: Drive, any_saver: Any) -> None:
        def asking(request: Any, state: Any, next: Any) -> Any:
            pause("go on?", allowed=("approve",))
            reply = next(request)
            pause("and on?", allowed=("approve",))
            return reply

        check, desk = Check(), Desk()
        around = Filter("asking", around_turn=asking, around_chat=asking, around_tool=asking)
        says = [asks(call("look", order=1)), "done"]
        guard = filters.moderation(check, on=("input", "output", "tool_results"))
        agent = agent_of(any_saver, says, guard, around, tools=[desk.look()])
        result, _ = drive(agent).finish("q", thread="t")
        assert result.answer == "done"
        assert check.asked == ["q", "order 1 is here", "done"]

    def test_a_batch_is_one_question(self, sql: SQLCheckpointer) -> None:
        sizes: list[int] = []

        def check(texts: list[str]) -> list[bool]:
            sizes.append(len(texts))
            return [False] * len(texts)

        agent = agent_of(sql, ["fine"], filters.moderation(check, batch=True))
        agent.invoke([HumanMessage("a"), HumanMessage([{"type": "text", "text": "b"}, {"type": "text", "text": "c"}])])
        assert sizes == [4, 1], "a, b, c and what b and c make together"

    def test_an_answer_of_a_tool_is_output(self, drive: Drive, sql: SQLCheckpointer, tmp_path: Path) -> None:
        tool = StructuredTool.from_function(lambda: f"so {BAD}", name="look", description="Look.", return_direct=True)
        agent = agent_of(sql, [asks(call("look"))], filters.moderation(Check()), tools=[tool])
        result, events = drive(agent).start("q", thread="t")
        assert result.answer == REFUSAL
        assert not stored(tmp_path)
        assert BAD not in whole(events)

    def test_what_pauses_outside_keeps_nothing_of_it(self, drive: Drive, sql: SQLCheckpointer, tmp_path: Path) -> None:
        """A layer that stands in front of it in the list asks a person, in each chain."""

        def asking(request: Any, state: Any, next: Any) -> Any:
            pause("go on?", allowed=("approve",))
            reply = next(request)
            pause("and on?", allowed=("approve",))
            return reply

        around = Filter("asking", around_turn=asking, around_chat=asking, around_tool=asking)
        guard = filters.moderation(Check(), on=("input", "output", "tool_results"), exit="replace")
        tool = StructuredTool.from_function(lambda: f"so {BAD}", name="look", description="Look.")
        says = [asks(call("look"), text=BAD), f"so {BAD}"]
        result, _ = drive(agent_of(sql, says, around, guard, tools=[tool])).finish(f"{BAD}?", thread="t")
        assert result.answer == REMOVED
        assert not stored(tmp_path)


BLOCKS: Any = st.recursive(
    st.sampled_from([BAD, f"so {BAD}!", "fine", ""])
    | st.just({"type": "image_url", "image_url": {"url": f"http://{BAD}"}}),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["text", "title", "note"]), inner, max_size=3)
    ),
    max_leaves=8,
)


class TestContent:
    """Wherever in a message it is."""

    @given(st.lists(st.dictionaries(st.sampled_from(["text", "input", "source"]), BLOCKS, min_size=1), max_size=4))
    @settings(max_examples=100, deadline=None)
    def test_no_nesting_hides_it(self, content: Any) -> None:
        """What is read is replaced; what is not read, as an address, stays."""
        message = HumanMessage(content)
        chain = compose([filters.moderation(Check(), exit="replace")], "turn", _answers)
        sent = chain(TurnRequest([message])).messages[0]
        assert not any(BAD in one for one in texts(sent))
        assert (sent == message) is not any(BAD in one for one in texts(message))

    @pytest.mark.parametrize(
        "guard", [filters.moderation(Check(), exit="error"), filters.pii("email", strategy="block")]
    )
    def test_a_message_that_is_blocked_ends_no_pause_and_rewinds_nothing(
        self, drive: Drive, sql: SQLCheckpointer, guard: Any
    ) -> None:
        """What was there before it is there behind it: the approval of the pause, the turns of the thread."""
        desk, bad = Desk(), f"{BAD} ana@example.com"
        says = [asks(call("refund", "c1", order=1)), "done", "bye"]
        stack = [guard, filters.approval({"refund": True})]
        agent = agent_of(sql, says, *stack, tools=desk.tools, on_message_while_paused="supersede")
        drive(agent).start("refund", thread="t")
        driver, session = drive(agent), agent.session("t")
        assert isinstance(outcome(driver, "start", bad, thread="t")[0], Blocked)
        assert (session.status, len(session.pending)) == ("paused", 1)
        assert drive(agent).resume("t", approve())[0].answer == "done"
        assert drive(agent).start("hello", thread="t")[0].answer == "bye"
        before = session.messages
        for turn in session.history:
            with pytest.raises(Blocked):
                session.edit_message(str(turn.sent[0].id), bad)
        assert (session.messages, session.rewound) == (before, [])

    @pytest.mark.parametrize("exit", EXITS)
    @pytest.mark.parametrize(
        "args", [{"detail": BAD}, {"order_id": BAD}, {"data": {BAD: 1}}, {"data": {"type": [BAD]}}, {BAD: 1}]
    )
    def test_arguments_are_read_whatever_their_names(
        self, sql: SQLCheckpointer, tmp_path: Path, exit: Any, args: Any
    ) -> None:
        """Also in the blocks in which some providers have them once more."""
        ran: list[Any] = []

        def ticket(detail: str = "", order_id: str = "", data: Any = None) -> str:
            """Open a ticket."""
            ran.append(detail)
            return "opened"

        block = {"type": "tool_use", "id": "c1", "name": "ticket", "input": args}
        says = [AIMessage([block], tool_calls=[call("ticket", "c1", **args)]), "done"]
        agent = agent_of(sql, says, filters.moderation(Check(), exit=exit), tools=[ticket])
        try:
            agent.invoke("go", thread="t")
        except Blocked:
            assert exit == "error"
        assert not ran
        assert not stored(tmp_path)

    @pytest.mark.parametrize(
        "message",
        [
            AIMessage("ok", additional_kwargs={"reasoning": {"summary": [{"type": "summary_text", "text": BAD}]}}),
            AIMessage("ok", additional_kwargs={"refusal": BAD}),
            AIMessage("ok", additional_kwargs={"audio": {"id": "a", "data": "AAAA", "transcript": BAD}}),
            AIMessage([{"type": "reasoning", "reasoning": BAD[:4]}, {"type": "reasoning", "reasoning": BAD[4:]}]),
            AIMessage("", invalid_tool_calls=[{"name": BAD, "args": "{", "id": "c", "error": None}]),  # type: ignore[list-item]
        ],
    )
    def test_what_clients_put_beside_the_content_is_read(self, message: Any) -> None:
        check = Check()
        assert agent_of(None, [message], filters.moderation(check)).invoke("go").answer == REFUSAL
        assert "AAAA" not in check.asked

    def test_malformed_calls_names_and_reasoning_are_read(self) -> None:
        broken = {"name": "mail", "args": f'{{"to": "{BAD}', "id": "c1", "error": None, "type": "invalid_tool_call"}
        for message in (
            AIMessage("fine", invalid_tool_calls=[broken]),
            AIMessage("fine", additional_kwargs={"reasoning_content": BAD}),
            AIMessage(
                "fine", response_metadata={"logprobs": {"content": [{"token": BAD}]}}, tool_calls=[call("a", x=BAD)]
            ),
            HumanMessage("fine", name=BAD),
        ):
            chain = compose([filters.moderation(Check(), exit="replace")], "turn", _answers)
            assert BAD not in repr(chain(TurnRequest([message])).messages[0])

    @pytest.mark.parametrize("exit", ["end", "replace"])
    def test_a_result_goes_with_its_call(self, drive: Drive, sql: SQLCheckpointer, exit: Any) -> None:
        """Of given messages too, malformed calls and ids that come again among them; other calls keep theirs."""
        bad, broken = call("mail", "c1", to=BAD), {"name": "b", "args": "{", "id": "c3", "type": "invalid_tool_call"}
        given = [
            HumanMessage("q"),
            AIMessage("", tool_calls=[call("mail", "c1", to="ana")]),
            ToolMessage("kept", tool_call_id="c1"),
            AIMessage("", tool_calls=[bad, call("look", "c2")], invalid_tool_calls=[broken]),
            *(ToolMessage(f"of {id}", tool_call_id=id) for id in ("c1", "c2", "c3")),
            AIMessage([{"type": "tool_use", "id": "c1", "name": "mail", "input": {"to": BAD}}], tool_calls=[bad]),
            ToolMessage("sent", tool_call_id="c1"),
            HumanMessage("and now?"),
        ]
        agent = agent_of(sql, ["fine"], filters.moderation(Check(), exit=exit))
        drive(agent).start(given, thread="t")
        there = agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
        assert results(there) == (["kept", "of c2"] if exit == "replace" else ["kept"])
        assert [len(one.tool_calls) for one in there if one.type == "ai"] == (
            [1, 1, 0, 0] if exit == "replace" else [1, 0]
        )

    def test_a_flagged_result_writes_nothing(self) -> None:
        guard = filters.moderation(Check(), on=["tool_results"], exit="replace")
        failed = ToolReply(
            ToolMessage(BAD, tool_call_id="c1"), {"raw": BAD}, error=ToolFailure("transient", OSError(BAD))
        )
        reply = compose([guard], "tool", lambda request: failed)(ToolRequest(call("look")))
        assert (reply.message.text, reply.writes, reply.error) == (REMOVED, {}, ToolFailure("transient"))


def _answers(request: TurnRequest) -> Completed:
    answer = AIMessage("done")
    return Completed(answer, [*request.messages, answer])


class TestVerdicts:
    """What a check may say."""

    @pytest.mark.parametrize(
        ("said", "thresholds", "found"),
        [
            (True, None, ("flagged",)),
            (False, None, ()),
            (Verdict(True), None, ("flagged",)),
            (Verdict(True, ["b", "a"]), None, ("a", "b")),
            (Verdict(False, ["a"]), None, ()),
            ({"flagged": True, "categories": {"a": True, "b": False}}, None, ("a",)),
            ({"categories": ["a"]}, None, ("a",)),
            ({"categories": []}, None, ()),
            ({"flagged": False, "category_scores": {"a": 0.6, "b": None}}, {"a": 0.5}, ("a",)),
            ({"flagged": True, "categories": {"a": True}, "scores": {"a": 0.6}}, {"a": 0.7}, ()),
            ({"flagged": True, "categories": ["a", "b"], "scores": {"a": 0.6, "b": 0.1}}, {"a": 0.7}, ("b",)),
            ({"flagged": True, "scores": {"a": 0.6}}, {"a": 0.7}, ()),
            ({"flagged": True, "scores": {"a": 0.6, "b": 0.6}}, {"a": 0.7}, ("flagged",)),
            ({"flagged": True}, {"a": 0.7}, ("flagged",)),
            ({"scores": {"a": 0.6, "b": 0.4}}, 0.5, ("a",)),
        ],
    )
    def test_thresholds_decide_where_there_are_scores(self, said: Any, thresholds: Any, found: Any) -> None:
        assert Thresholds(thresholds, "m").found(said) == found

    @pytest.mark.parametrize(
        "said",
        [
            *(None, "no", 1, [], {}, {"flag": True}, {"flagged": 1}, {"scores": {"a": 0.9}}),
            {"flagged": False, "scores": {"a": "x"}},
            {"flagged": True, "categories": "hate"},
            {"flagged": True, "scores": {"a": float("nan")}},
        ],
    )
    def test_what_is_no_verdict_passes_nothing(self, said: Any, sql: SQLCheckpointer, tmp_path: Path) -> None:
        agent = agent_of(sql, ["fine"], filters.moderation(lambda text: said))
        with pytest.raises(FilterError) as caught:
            agent.invoke(BAD, thread="t")
        assert isinstance(caught.value.__cause__, TypeError)
        assert not stored(tmp_path)


class TestFailures:
    """A check that crashes."""

    @pytest.mark.parametrize("place", ["input", "output", "tool_results"])
    @pytest.mark.parametrize("error", [ConnectionError(BAD), asyncio.CancelledError()], ids=["error", "cancelled"])
    def test_it_fails_closed(
        self, drive: Drive, sql: SQLCheckpointer, tmp_path: Path, place: Any, error: Any, caplog: Any
    ) -> None:
        def check(text: str) -> bool:
            if BAD in text:
                raise error
            return False

        tool = StructuredTool.from_function(lambda: f"so {BAD}", name="look", description="Look.")
        says = {"input": [], "output": [f"so {BAD}"], "tool_results": [asks(call("look")), "never"]}[place]
        driver = drive(agent_of(sql, says, filters.moderation(check, on=[place]), tools=[tool]))
        with caplog.at_level(logging.DEBUG, "scallion"), pytest.raises(FilterError, match="moderation") as caught:
            driver.start(BAD if place == "input" else "q", thread="t")
        assert BAD not in str(caught.value) + caplog.text
        assert not stored(tmp_path)

    @pytest.mark.parametrize("place", ["input", "output", "tool_results"])
    def test_it_may_fail_open(self, drive: Drive, sql: SQLCheckpointer, place: Any, caplog: Any) -> None:
        def check(text: str) -> bool:
            raise ConnectionError(BAD)

        desk = Desk()
        guard = filters.moderation(check, on=[place], fail_open=True)
        driver = drive(agent_of(sql, [asks(call("look", order=1)), "done"], guard, tools=[desk.look()]))
        assert driver.start("q", thread="t")[0].answer == "done"
        assert "ConnectionError" in caplog.text
        assert BAD not in caplog.text


class TestJudge:
    """A model as the check."""

    def test_the_agents_model_judges_and_counts(self, drive: Drive, sql: SQLCheckpointer) -> None:
        """In all three chains; what it says is not streamed."""
        desk = Desk()
        no, yes = '[{"flagged": false, "categories": []}]', '```json\n[{"flagged": true, "categories": ["rude"]}]\n```'
        guard = filters.moderation(
            filters.llm_judge("Nobody is rude."),
            on=("input", "output", "tool_results"),
            failure_response="No {categories} words.",
        )
        model = ScriptedModel([no, asks(call("look", order=1)), no, "You fool.", yes])
        agent = Agent(model, tools=[desk.look()], filters=[guard], checkpointer=sql)
        result, events = drive(agent).start("Hi", thread="t")
        assert (result.answer, result.usage["model_calls"]) == ("No rude words.", 5)
        assert '["Hi"]' in model.calls[0][-1].text
        assert "Nobody is rude." in model.calls[0][0].text
        assert "flagged" not in "".join(one.text for one in events if isinstance(one, Token))

    @pytest.mark.parametrize(
        "said", ["fine by me", "[]", '[{"flagged": "no"}]', '[{"ok": true}]', '{"flagged": false} [{"flagged": true}]']
    )
    def test_an_answer_that_is_no_verdict_passes_nothing(self, sql: SQLCheckpointer, said: str) -> None:
        guard = filters.moderation(filters.llm_judge("Be kind.", model=ScriptedModel([said])))
        with pytest.raises(FilterError):
            agent_of(sql, ["never"], guard).invoke("Hi", thread="t")

    def test_its_failures_keep_their_kind(self, memory: Any) -> None:
        """A limit is none of the check, whatever may pass."""
        guard = filters.moderation(filters.llm_judge("Be kind."), fail_open=True)
        limits = Limits(model_calls=1)
        with pytest.raises(LimitExceeded):
            agent_of(memory, ['[{"flagged": false}]', "x"], guard, limits=limits).invoke("Hi", thread="t")
        broken = ScriptedModel([TimeoutError("late")])
        closed = filters.moderation(filters.llm_judge("Be kind.", model=broken))
        with pytest.raises(ModelError):
            agent_of(memory, ["x"], closed).invoke("Hi", thread="u")


class TestBareGraph:
    """Where nothing stands around the turn, the model is not asked."""

    def test_flagged_input_ends_it(self) -> None:
        agent = agent_of(None, ["never"], filters.moderation(Check(), exit="replace"))
        assert agent.graph.invoke({"messages": [("user", BAD)]})["messages"][-1].text == REFUSAL

    def test_system_messages_of_the_input_are_judged(self, drive: Drive, sql: SQLCheckpointer) -> None:
        driver = drive(agent_of(sql, ["never"], filters.moderation(Check(), exit="replace")))
        assert driver.start([SystemMessage(BAD), HumanMessage("hi")], thread="t")[0].answer == REFUSAL


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"check": "no"}, "check is a function"),
        ({"check": lambda: True}, "check"),
        ({"on": "input"}, "on is a list"),
        ({"on": ()}, "on is a list"),
        ({"on": ("tools",)}, "tool_results"),
        ({"exit": "stop"}, "exit is one of"),
        ({"thresholds": {"a": "high"}}, "thresholds"),
        ({"thresholds": -1}, "thresholds"),
        ({"failure_response": ""}, "failure_response"),
        ({"failure_response": "No {category}."}, "{category}, which nothing fills in"),
        ({"replacement": None}, "replacement"),
    ],
)
def test_what_cannot_be_is_refused(given: Any, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as caught:
        filters.moderation(**{"check": lambda text: False, **given})
    assert "moderation" in str(caught.value)


def test_a_failure_says_what_was_wrong_with_the_verdict(sql: SQLCheckpointer) -> None:
    """In words of ours, which quote nothing; of what others raised the class alone."""

    def raises(text: str) -> bool:
        raise KeyError(text)

    judge = filters.llm_judge("No insults.", model=ScriptedModel(["Looks fine to me"]))
    for check, told in (
        (lambda text: "yes", "a check gives True or False, a Verdict or its mapping, not str"),
        (judge, "the judge's answer holds no JSON"),
        (raises, "KeyError"),
    ):
        with pytest.raises(FilterError) as caught:
            Agent(ScriptedModel(["fine"]), filters=[filters.moderation(check)]).invoke("Hello")
        assert str(caught.value) == f"filter 'moderation' failed in around_turn: {told}"


@pytest.mark.parametrize("guard_first", [True, False])
def test_beside_tokens_in_either_order(drive: Drive, guard_first: bool) -> None:
    """Of the first message of a thread, too: whoever is outside has it taken out."""
    guard = filters.pii("email", strategy="tokenise", key="a secret of some length")
    check = filters.moderation(lambda text: False)
    stack = [guard, check] if guard_first else [check, guard]
    driver = drive(Agent(ScriptedModel(["ok"]), filters=stack, checkpointer="sqlite://"))
    result, _ = driver.start("I am ana@example.com", thread="t")
    assert re.fullmatch("I am <email_1_[a-z]{4}>", result.messages[0].text)
