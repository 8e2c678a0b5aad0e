"""`filters.safeguard`: forbidden words and a classifier end the turn with a refusal before the model is asked."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from modes import Drive, delivered
from scenes import Desk, asks, call, heard

from scallion import (
    Agent,
    ChatReply,
    ChatRequest,
    ConfigurationError,
    Filter,
    FilterActed,
    FilterError,
    compose,
    filters,
    pause,
    token_transform,
)
from scallion.filters.words import finder, folded
from scallion.testing import ScriptedModel

REFUSAL = "I cannot help with that."


def blocked(result: Any) -> bool:
    """Whether the turn ended with the refusal."""
    return bool(result.message.response_metadata.get("finish_reason") == "content_filtered")


class TestWords:
    """What is found in a text, and what is not."""

    @pytest.mark.parametrize(
        "text",
        [
            "build a bomb now",
            "BOMB",
            "(bomb)",
            "bomb_threat",
            "\uff42\uff4f\uff4d\uff42",  # full width
            "\U0001d41b\U0001d428\U0001d426\U0001d41b",  # mathematical bold
            "bo\u200bmb",  # zero-width space
            "b\u00ado\u2060m\ufeffb",  # soft hyphen, word joiner, byte order mark
            "bo\ufe0fm\u202eb",  # variation selector, right-to-left override
            "b\u0336o\u0336m\u0336b\u0336",  # struck through
            "bo\x00mb",
            "\u0412\u043e\u043c\u044c bomb",  # another word, in Cyrillic, and the word
            "b\u043emb",  # Cyrillic o
            "b\u03bfmb",  # Greek omicron
            "\u0412\u041e\u041c\u0412",  # capitals, all Cyrillic
            "ʙᴏᴍʙ",
            "炸bomb弹",
        ],
    )
    def test_the_word_is_found_however_it_is_written(self, text: str) -> None:
        assert finder(["Bomb"])(text)

    @pytest.mark.parametrize("text", ["bombast", "abomb", "bombs", "bom b", "bo mb", "b-o-m-b", "bomb1", "bombé", ""])
    def test_a_part_of_another_word_is_not(self, text: str) -> None:
        """Defect 27: a substring was enough, so that a class could not be spoken of."""
        assert not finder(["bomb"])(text)

    @pytest.mark.parametrize("text", ["the class passes", "Scunthorpe", "assassin"])
    def test_innocent_words_stay_innocent(self, text: str) -> None:
        assert not finder(["ass", "cunt"])(text)

    @pytest.mark.parametrize(
        ("word", "text"),
        [
            ("炸弹", "制造炸弹的方法"),
            ("爆弾", "爆弾を作る"),
            ("폭탄", "폭탄을 만드는 법"),
            ("ระเบิด", "ทำระเบิดยังไง"),
            ("bomb", "这是bomb吗"),
        ],
    )
    def test_scripts_without_spaces_need_no_border(self, word: str, text: str) -> None:
        assert finder([word])(text)

    def test_several_words_may_be_one(self) -> None:
        """Any space between them is one space."""
        assert finder(["make a bomb"])("How to make  a\n\tbomb?")
        assert not finder(["make a bomb"])("make the bomb")

    def test_the_case_may_matter(self) -> None:
        assert finder(["IRA"], case_sensitive=True)("the IRA")
        assert finder(["IRA"], case_sensitive=True)("the \u0406RA")  # Cyrillic I
        assert not finder(["IRA"], case_sensitive=True)("Ira Gershwin")

    def test_a_language_of_another_alphabet_is_matched_in_itself(self) -> None:
        """Folding letters that look Latin must not tear a Cyrillic or Greek word apart."""
        assert finder(["бомба"])("БОМБА!")
        assert finder(["βόμβα"])("ΒΌΜΒΑ")
        assert finder(["Straße"])("STRASSE")
        assert finder(["istanbul"])("\u0130STANBUL")

    @pytest.mark.parametrize("words", [[], [""], ["\u200b", " "]])
    def test_nothing_is_never_found(self, words: list[str]) -> None:
        assert not finder(words)("anything \u200b at all")

    @settings(max_examples=200, deadline=None)
    @given(st.text(max_size=12), st.text(alphabet=" .,!?\n", min_size=1, max_size=3))
    def test_a_word_of_any_script_is_found_between_marks(self, word: str, mark: str) -> None:
        """Whatever it folds to, unless that is nothing."""
        assert finder([word])(f"{mark}{word}{mark}") is bool(folded(word))


def test_a_refusal_costs_no_model_call_and_is_streamed(drive: Drive) -> None:
    """Defect 18: the refusal was only in the return value, and a reader of the stream saw nothing."""
    model = ScriptedModel()
    driver = drive(Agent(model, filters=[filters.safeguard(["bomb"])]))
    result, events = driver.start("How is a bomb made?")
    assert blocked(result)
    assert result.answer == REFUSAL
    assert model.calls == []
    if driver.streams:
        assert delivered(events) == REFUSAL
        assert FilterActed("safeguard", "around_turn", "short_circuit") in events


def test_what_is_clean_passes_unchanged(drive: Drive) -> None:
    model = ScriptedModel(["hello"])
    result, _ = drive(Agent(model, filters=[filters.safeguard(["bomb"])])).start("hi")
    assert not blocked(result)
    assert heard(model.calls[0]) == [("human", "hi")]


def test_old_history_does_not_keep_blocking(drive: Drive, memory: Any) -> None:
    """Only what is new is checked, so a thread goes on after a refusal."""
    model = ScriptedModel(["hello"])
    driver = drive(Agent(model, filters=[filters.safeguard(["bomb"])], checkpointer=memory))
    assert blocked(driver.start("a bomb", thread="t")[0])
    result, _ = driver.start("sorry, hello", thread="t")
    assert result.answer == "hello"
    assert heard(model.calls[0]) == [("human", "a bomb"), ("ai", REFUSAL), ("human", "sorry, hello")]


def test_with_scope_every_it_does(drive: Drive, memory: Any) -> None:
    model = ScriptedModel()
    driver = drive(Agent(model, filters=[filters.safeguard(["bomb"], scope="every")], checkpointer=memory))
    assert blocked(driver.start("a bomb", thread="t")[0])
    assert blocked(driver.start("sorry, hello", thread="t")[0])


@pytest.mark.parametrize(("scope", "calls"), [("new", 2), ("every", 1)])
def test_results_of_tools_are_checked_with_scope_every(drive: Drive, scope: Any, calls: int) -> None:
    """What a tool brings in is not new input of the turn."""
    model = ScriptedModel([asks(call("mail", to="bomb squad")), "done"])
    driver = drive(Agent(model, tools=Desk().tools, filters=[filters.safeguard(["bomb"], scope=scope)]))
    result, events = driver.start("go")
    assert len(model.calls) == calls
    assert blocked(result) is (scope == "every")
    if driver.streams:
        assert delivered(events) == (REFUSAL if scope == "every" else "done")


@pytest.mark.parametrize(
    ("messages", "is_blocked"),
    [
        ([HumanMessage("bo"), HumanMessage("mb")], False),
        ([HumanMessage("nerve"), HumanMessage("gas")], False),
        ([HumanMessage([{"type": "text", "text": "bo"}, {"type": "text", "text": "mb"}])], True),
        ([HumanMessage([{"type": "text", "text": "an"}, {"type": "text", "text": "bomb"}])], True),
        ([HumanMessage(["my", "bomb"])], True),
        ([HumanMessage([{"type": "image_url", "image_url": {"url": "https://x.test/bomb"}}])], False),
        ([HumanMessage("hi"), AIMessage("I like the bomb"), HumanMessage("go on")], True),
    ],
)
def test_texts_are_read_by_message(drive: Drive, messages: Any, is_blocked: bool) -> None:
    """Defect 27: "bo" and "mb" of two messages made a word. Text blocks of one message are scanned (defect 30)."""
    words = ["bomb", "nerve gas"]
    result, _ = drive(Agent(ScriptedModel(["fine"]), filters=[filters.safeguard(words)])).start(messages)
    assert blocked(result) is is_blocked


TEXT = [{"type": "text", "text": "a bomb"}]
BLOCKS: dict[str, tuple[Any, bool]] = {
    "document": ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a bomb"}}, True),
    "document of parts": ({"type": "document", "source": {"type": "content", "content": TEXT}}, True),
    "title": ({"type": "document", "title": "bomb", "source": {"type": "url", "url": "https://x.test"}}, True),
    "search result": ({"type": "search_result", "title": "t", "source": "s", "content": TEXT}, True),
    "tool result": ({"type": "tool_result", "tool_use_id": "1", "content": TEXT}, True),
    "tool result, a text": ({"type": "tool_result", "tool_use_id": "1", "content": "a bomb"}, True),
    "plain text": ({"type": "text-plain", "mime_type": "text/plain", "text": "a bomb"}, True),
    "no kind": ({"text": "a bomb"}, True),
    "unknown": ({"type": "of tomorrow", "deep": [{"inside": ["a bomb"]}]}, True),
    "picture": ({"type": "image", "base64": "/bomb+", "mime_type": "image/png"}, False),
    "file": ({"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": "/bomb+"}}, False),
    "sound": ({"type": "input_audio", "input_audio": {"data": "/bomb+", "format": "wav"}}, False),
    "media": ({"type": "media", "mime_type": "image/png", "data": "/bomb+"}, False),
    "address": ({"type": "image_url", "image_url": {"url": "https://x.test/bomb"}}, False),
    "id": ({"type": "file", "file_id": "bomb"}, False),
}


@pytest.mark.parametrize("scope", ["new", "every"])
@pytest.mark.parametrize("kind", BLOCKS)
def test_every_text_of_every_block_is_read(kind: str, scope: Any) -> None:
    """A block that is not known too; what is no text is not."""
    block, is_blocked = BLOCKS[kind]
    agent = Agent(ScriptedModel(["fine"]), filters=[filters.safeguard(["bomb"], scope=scope)])
    assert blocked(agent.invoke([HumanMessage([{"type": "text", "text": "Look:"}, block])])) is is_blocked


def test_a_word_in_two_texts_is_found_around_another_block() -> None:
    """As the model reads them, whatever stands between."""
    parts = [{"type": "text", "text": "bo"}, {"type": "document", "title": "x"}, {"type": "text", "text": "mb"}]
    assert blocked(Agent(ScriptedModel(["fine"]), filters=[filters.safeguard(["bomb"])]).invoke([HumanMessage(parts)]))


@pytest.mark.parametrize("scope", ["new", "every"])
@pytest.mark.parametrize(
    "messages",
    [
        [SystemMessage("How is a bomb made?"), HumanMessage("Go on.")],
        [HumanMessage("Hello."), SystemMessage("How is a bomb made?")],
        [HumanMessage("a bomb"), AIMessage("ok"), HumanMessage("go on")],
        [HumanMessage("x"), asks(call("mail", to="the bomb squad")), ToolMessage("ok", tool_call_id="c1")],
    ],
)
def test_every_message_of_the_input_is_read(drive: Drive, scope: Any, messages: Any) -> None:
    """Whatever its role, also in the bare graph."""
    model = ScriptedModel(["fine", "fine"])
    agent = Agent(model, filters=[filters.safeguard(["bomb"], scope=scope)])
    assert blocked(drive(agent).start(messages)[0])
    assert agent.graph.invoke({"messages": messages})["messages"][-1].text == REFUSAL
    assert model.calls == []


@pytest.mark.parametrize("scope", ["new", "every"])
def test_the_prompts_of_the_developer_are_not(drive: Drive, scope: Any) -> None:
    """Of the agent and of the call."""
    guard = filters.safeguard(["bomb"], scope=scope)
    agent = Agent(ScriptedModel(["fine"]), system_prompt="Speak of no bomb.", filters=[guard])
    assert drive(agent).start("hello", system_prompt="A bomb is no subject.")[0].answer == "fine"


@pytest.mark.parametrize("colour", ["def", "async def", "awaitable"])
def test_a_classifier_of_either_colour_is_asked(drive: Drive, colour: str) -> None:
    asked: list[str] = []

    def judge(text: str) -> bool:
        asked.append(text)
        return "weapon" in text

    async def ajudge(text: str) -> bool:
        await asyncio.sleep(0)
        return judge(text)

    classifier = {"def": judge, "async def": ajudge, "awaitable": lambda text: ajudge(text)}[colour]
    agent = Agent(ScriptedModel(["fine"]), filters=[filters.safeguard(classifier=classifier)])
    assert blocked(drive(agent).start("a weapon")[0])
    assert drive(agent).start("a flower")[0].answer == "fine"
    assert asked == ["a weapon", "a flower"]


@pytest.mark.parametrize("wrong", [ValueError("a weapon"), None, 1, "no"])
def test_a_classifier_that_fails_lets_nothing_through(drive: Drive, wrong: Any) -> None:
    """Defect 12. A crash fails the turn, and so does an answer that is none; the text is in no message."""

    def judge(text: str) -> Any:
        if isinstance(wrong, Exception):
            raise wrong
        return wrong

    model = ScriptedModel(["fine"])
    with pytest.raises(FilterError) as caught:
        drive(Agent(model, filters=[filters.safeguard(classifier=judge)])).start("a weapon")
    assert model.calls == []
    assert caught.value.filter == "safeguard"
    assert "weapon" not in str(caught.value)


def test_a_classifier_is_not_asked_again_in_the_rounds_of_a_turn(drive: Drive, memory: Any) -> None:
    """Nor when the turn goes on after a pause: the messages passed."""
    asked: list[str] = []

    def judge(text: str) -> bool:
        asked.append(text)
        return False

    model = ScriptedModel([asks(call("refund", order=1)), "done"])
    stack = [filters.safeguard(classifier=judge), filters.approval({"refund": True})]
    driver = drive(Agent(model, tools=Desk().tools, filters=stack, checkpointer=memory))
    assert driver.finish("go", thread="t")[0].answer == "done"
    assert asked == ["go"]


def test_a_pause_in_front_of_it_does_not_open_it(drive: Drive, memory: Any) -> None:
    """A filter outside asks before the guard was reached: going on is no reason to let the message through."""

    def ask(request: Any, state: Any, next: Any) -> Any:
        pause("Go?", allowed=("approve",))
        return next(request)

    model = ScriptedModel()
    stack = [Filter("ask", around_turn=ask), filters.safeguard(["bomb"])]
    result, _ = drive(Agent(model, filters=stack, checkpointer=memory)).finish("a bomb", thread="t")
    assert blocked(result)
    assert model.calls == []


def test_feedback_of_a_filter_outside_is_no_new_input(drive: Drive) -> None:
    """A filter that enters the loop again gives the whole sequence, with answers and feedback in it."""

    def again(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        messages = [*result.messages, HumanMessage("do not say bomb")]
        return next(request.replace(messages=messages, load_history=False))

    model = ScriptedModel(["a bomb", "a flower"])
    stack = [Filter("again", around_turn=again), filters.safeguard(["bomb"])]
    assert drive(Agent(model, filters=stack)).start("hi")[0].answer == "a flower"


def test_a_refusal_is_not_validated_as_an_answer(drive: Drive) -> None:
    """Defect 23: the refusal was found wanting, and the loop was entered again, to be refused again."""
    judged: list[str] = []
    stack = [filters.validate_answer(lambda result: judged.append(result.answer) or "no"), filters.safeguard(["bomb"])]
    result, _ = drive(Agent(ScriptedModel(), filters=stack)).start("a bomb")
    assert blocked(result)
    assert result.attempts == 1
    assert judged == []


def test_the_verdict_is_waited_for_before_the_model_is_asked(drive: Drive) -> None:
    """FLT-08: a check beside the model comes too late where the model is quicker, and a tool has run by then."""

    async def slowly(text: str) -> bool:
        await asyncio.sleep(0.01)
        return True

    desk, model = Desk(), ScriptedModel([asks(call("refund", order=1)), "done"])
    agent = Agent(model, tools=desk.tools, filters=[filters.safeguard(classifier=slowly)])
    assert blocked(drive(agent).start("go")[0])
    assert (model.calls, desk.ran) == ([], [])


def test_the_bare_graph_is_guarded_too(memory: Any) -> None:
    """Where nothing stands around the turn, the first model call of a turn checks what is behind the last answer."""
    model = ScriptedModel([asks(call("mail", to="bomb squad")), "sent", "hello"])
    graph = Agent(model, tools=Desk().tools, filters=[filters.safeguard(["bomb"])], checkpointer=memory).graph
    config: Any = {"configurable": {"thread_id": "t"}}
    assert graph.invoke({"messages": [HumanMessage("a bomb")]}, config)["messages"][-1].text == REFUSAL
    assert graph.invoke({"messages": [HumanMessage("write")]}, config)["messages"][-1].text == "sent"
    assert graph.invoke({"messages": [HumanMessage("hi")]}, config)["messages"][-1].text == "hello"


def test_the_hooks_work_alone() -> None:
    """With `compose`, in the chain that is tested."""
    guard = filters.safeguard(["bomb"], failure_response="No.")
    reply = compose([guard], "chat", lambda request: ChatReply(AIMessage("ok")))(ChatRequest([HumanMessage("bomb")]))
    assert reply.message.text == "No."


def test_a_refusal_passes_the_token_transforms(drive: Drive) -> None:
    """It is delivered like any answer."""

    @token_transform
    def loud(token: Any, state: Any) -> Any:
        return [token.text.upper()], state

    driver = drive(Agent(ScriptedModel(), filters=[filters.safeguard(["bomb"]), loud]))
    _, events = driver.start("bomb")
    assert delivered(events) == (REFUSAL.upper() if driver.streams else "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"words": "bomb"}, "words is a list"),
        ({"words": 3}, "words is a list"),
        ({"words": ["a", 3]}, "words are texts"),
        ({"words": ["a"], "scope": "all"}, "scope"),
        ({"classifier": "model"}, "classifier"),
        ({"classifier": lambda: True}, r"classifier\(\) cannot take \(text\)"),
        ({"words": ["a"], "failure_response": ""}, "failure_response"),
    ],
)
def test_a_mistake_is_refused_where_it_is_made(arguments: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=f"'words'.*{message}"):
        filters.safeguard(**arguments, name="words")
