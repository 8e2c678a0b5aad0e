"""`memory`: each message once, whatever fails or is tried again, with a checkpointer, without one and beside one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from filters.test_windows import KINDS, check_whole, made
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.chat_history import BaseChatMessageHistory, InMemoryChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.retrievers import BaseRetriever
from modes import Drive
from scenes import Desk, asks, call, heard

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    FilterError,
    ModelError,
    Paused,
    SQLCheckpointer,
    ThreadError,
    approve,
    around_chat,
    around_turn,
    filters,
)
from scallion.filters.memory import joined, windowed
from scallion.testing import ScriptedModel

pytestmark = pytest.mark.filterwarnings("ignore::langchain_core._api.deprecation.LangChainDeprecationWarning")


class Store:
    """Histories in memory, by name."""

    def __init__(self) -> None:
        self.kept: defaultdict[str, InMemoryChatMessageHistory] = defaultdict(InMemoryChatMessageHistory)

    def __call__(self, name: str) -> BaseChatMessageHistory:
        return self.kept[name]

    def heard(self, name: str = "t") -> list[tuple[str, str]]:
        return heard(self.kept[name].messages)


@pytest.fixture(params=["theirs", "ours"])
def histories(request: pytest.FixtureRequest, sql: SQLCheckpointer) -> Callable[[str], Any]:
    """LangChain's history in memory, and ours in a database."""
    return Store() if request.param == "theirs" else sql.history


def test_who_comes_back_to_an_older_thread_is_read_in_order(drive: Drive, sql: SQLCheckpointer) -> None:
    """What was said in another thread meanwhile stands where it was said, and a window drops what is oldest."""
    model = ScriptedModel(lambda messages: AIMessage(f"a{messages[-1].text}"))
    remembers = filters.memory(sql.history, conversation=lambda context: context.owner, window=5)
    agent = Agent(model, filters=[remembers], checkpointer=sql)
    for message, thread in (("1", "m"), ("2", "m"), ("3", "tu"), ("4", "tu"), ("5", "m")):
        drive(agent).start(message, thread=thread, owner="ana")
    assert [text for _, text in heard(model.calls[-1])] == ["3", "a3", "4", "a4", "5"]


def test_what_was_said_is_remembered_without_a_checkpointer(drive: Drive, histories: Callable[[str], Any]) -> None:
    model = ScriptedModel([asks(call("look", order=7)), "It is here.", "Number 7."])
    agent = Agent(model, tools=Desk().tools, filters=[filters.memory(histories)], system_prompt="Be kind.")
    drive(agent).start("Where is 7?", thread="t")
    drive(agent).start("Which one?", thread="t")
    first = [("human", "Where is 7?"), ("ai", ""), ("tool", "order 7 is here"), ("ai", "It is here.")]
    conversation = [*first, ("human", "Which one?")]
    assert heard(model.calls[-1]) == [("system", "Be kind."), *conversation]
    assert heard(histories("t").messages) == [*conversation, ("ai", "Number 7.")]


def test_another_process_remembers(tmp_path: Any) -> None:
    """Here: another saver, another agent."""
    model = ScriptedModel(["Hello, Ana.", "Ana."])
    for text in ("I am Ana.", "Who am I?"):
        with SQLCheckpointer(f"sqlite:///{tmp_path}/memory.db") as saver:
            Agent(model, filters=[filters.memory(saver.history)]).invoke(text, thread="t")
    assert [text for _, text in heard(model.calls[1])] == ["I am Ana.", "Hello, Ana.", "Who am I?"]


def test_beside_a_checkpointer_nothing_is_there_twice(drive: Drive, any_saver: Any) -> None:
    store = Store()
    model = ScriptedModel([asks(call("look", order=7)), "Here.", "Yes.", "Good."])
    agent = Agent(model, tools=Desk().tools, filters=[filters.memory(store)], checkpointer=any_saver)
    for text in ("Where is 7?", "Sure?", "Thanks."):
        result, _ = drive(agent).start(text, thread="t")
    assert heard(model.calls[-1]) == heard(result.messages)[:-1]
    assert store.heard() == heard(result.messages)


def test_each_round_of_tools_reads_each_message_once(drive: Drive) -> None:
    """A neighbour put the stored history in front again with every round."""
    store = Store()
    rounds = [asks(call("look", f"c{n}", order=n)) for n in range(3)]
    model = ScriptedModel(["Hello.", *rounds, "All here."])
    agent = Agent(model, tools=Desk().tools, filters=[filters.memory(store)])
    drive(agent).start("Hi", thread="t")
    drive(agent).start("Where are they?", thread="t")
    for number, read in enumerate(model.calls[1:]):
        assert [text for _, text in heard(read)].count("Hi") == 1
        assert [text for _, text in heard(read)].count("Where are they?") == 1
        assert len(read) == 3 + 2 * number
    for before, now in zip(model.calls[1:], model.calls[2:], strict=False):
        assert now[: len(before)] == before


def test_a_turn_that_fails_leaves_nothing_to_double(drive: Drive, histories: Callable[[str], Any]) -> None:
    """The seed kept the question of a call that failed, and the user's second try doubled it."""
    model = ScriptedModel([TimeoutError("slow"), "Five."])
    agent = Agent(model, filters=[filters.memory(histories)])
    with pytest.raises(ModelError):
        drive(agent).start("2 + 3?", thread="t")
    assert histories("t").messages == []
    drive(agent).start("2 + 3?", thread="t")
    assert heard(histories("t").messages) == [("human", "2 + 3?"), ("ai", "Five.")]


def test_a_retry_around_it_stores_the_question_once(drive: Drive, histories: Callable[[str], Any]) -> None:
    """The seed stored question and reply again with each try."""

    @around_chat
    def again(request: Any, state: Any, next: Any) -> Any:
        next(request)
        return next(request)

    model = ScriptedModel(["first", "second", "Bye."])
    agent = Agent(model, filters=[again, filters.memory(histories)])
    drive(agent).start("2 + 3?", thread="t")
    assert heard(histories("t").messages) == [("human", "2 + 3?"), ("ai", "second")]
    assert heard(model.calls[1]) == [("human", "2 + 3?")]


def test_a_write_that_failed_behind_its_effect_is_not_made_twice(drive: Drive, memory: Any) -> None:
    """The connection was lost after the messages had arrived: the turn is finished with the next message."""

    class Flaky(InMemoryChatMessageHistory):
        def add_messages(self, messages: Sequence[BaseMessage]) -> None:
            super().add_messages(messages)
            if len(self.messages) == 2:
                raise ConnectionError

    history = Flaky()
    model = ScriptedModel(["Five.", "Yes."])
    agent = Agent(model, filters=[filters.memory(lambda name: history)], checkpointer=memory)
    with pytest.raises(FilterError):
        drive(agent).start("2 + 3?", thread="t")
    drive(agent).start("Sure?", thread="t")
    conversation = [("human", "2 + 3?"), ("ai", "Five."), ("human", "Sure?"), ("ai", "Yes.")]
    assert heard(history.messages) == conversation
    assert heard(model.calls[1]) == conversation[:3]


@pytest.mark.parametrize("saver", [True, False], ids=["checkpointer", "none"])
def test_rejected_answers_and_feedback_are_not_remembered(drive: Drive, memory: Any, saver: bool) -> None:
    """Executed calls are."""

    @around_turn
    def shorter(request: Any, state: Any, next: Any) -> Any:
        first = next(request)
        return next(request.replace(messages=[*first.messages, HumanMessage("Shorter.")], load_history=False))

    store = Store()
    model = ScriptedModel([asks(call("look", order=7)), "It is here, I think.", "Here."])
    stack = [filters.memory(store), shorter]
    agent = Agent(model, tools=Desk().tools, filters=stack, checkpointer=memory if saver else None)
    drive(agent).start("Where is 7?", thread="t")
    assert store.heard() == [("human", "Where is 7?"), ("ai", ""), ("tool", "order 7 is here"), ("ai", "Here.")]


def test_an_answer_that_a_filter_writes_is_remembered_once(drive: Drive, memory: Any) -> None:
    """It has no id of its own, and is the same in the thread and in the history."""

    @around_turn
    def polite(request: Any, state: Any, next: Any) -> Any:
        return next(request).replace(message=AIMessage("Gladly."))

    store, model = Store(), ScriptedModel(["Yes.", "No."])
    agent = Agent(model, filters=[filters.memory(store), polite], checkpointer=memory)
    drive(agent).start("a", thread="t")
    drive(agent).start("b", thread="t")
    assert [text for _, text in heard(model.calls[1])] == ["a", "Gladly.", "b"]
    assert [text for _, text in store.heard()] == ["a", "Gladly.", "b", "Gladly."]


def test_a_pause_is_remembered_when_it_is_over(drive: Drive, sql: SQLCheckpointer) -> None:
    desk, store = Desk(), Store()
    model = ScriptedModel(["Hello.", asks(call("refund", order=7)), "Done."])
    stack = [filters.memory(store), filters.approval({"refund": True})]
    agent = Agent(model, tools=desk.tools, filters=stack, checkpointer=sql)
    driver = drive(agent)
    driver.start("Hi", thread="t")
    result, _ = driver.start("Refund 7.", thread="t")
    assert isinstance(result, Paused)
    assert store.heard() == [("human", "Hi"), ("ai", "Hello.")]
    result, _ = driver.resume("t", approve())
    assert isinstance(result, Completed)
    assert store.heard() == heard(result.messages)
    assert desk.ran == ["refund 7"]


def test_what_is_transient_and_what_is_a_system_prompt_is_not_stored(drive: Drive) -> None:
    class Shelf(BaseRetriever):
        def _get_relevant_documents(self, query: str, *, run_manager: Any) -> list[Document]:
            return [Document("Leeks are in aisle 3.")]

    store = Store()
    agent = Agent(
        ScriptedModel(["Aisle 3."]), filters=[filters.memory(store), filters.retrieve(Shelf())], system_prompt="A."
    )
    drive(agent).start([SystemMessage("B."), HumanMessage("Leeks?")], thread="t", system_prompt="C.")
    assert store.heard() == [("human", "Leeks?"), ("ai", "Aisle 3.")]


def test_conversations_are_named_by_thread_or_as_you_say(histories: Callable[[str], Any]) -> None:
    by_owner = filters.memory(histories, conversation=lambda context: context.owner)
    model = ScriptedModel(["Hello, Ana.", "Ana.", "Nobody."])
    agent = Agent(model, filters=[by_owner])
    agent.invoke("I am Ana.", thread="one", owner="ana")
    agent.invoke("Who am I?", thread="two", owner="ana")
    agent.invoke("Who am I?", thread="two")
    assert list(map(len, model.calls)) == [1, 3, 1]
    assert len(histories("ana").messages) == 4
    assert histories("two").messages == []


def test_callers_may_count_their_messages_in_each_thread(drive: Drive, histories: Callable[[str], Any]) -> None:
    """By ids alone the second `msg-1` hid what was remembered, and was not remembered itself."""
    model = ScriptedModel(lambda messages: "Noted.")
    agent = Agent(model, filters=[filters.memory(histories, conversation=lambda context: context.owner)])
    said = ["I am allergic to nuts.", "What may I eat?", "And now?"]
    for thread, text in enumerate(said):
        drive(agent).start(HumanMessage(text, id="msg-1"), thread=f"{thread}", owner="ana")
    assert [one.text for one in model.calls[-1] if one.type == "human"] == said
    assert [one.text for one in histories("ana").messages if one.type == "human"] == said


def test_a_history_belongs_to_the_owner_of_its_turns(drive: Drive, sql: SQLCheckpointer) -> None:
    """It belonged to nobody: whoever named its thread, or the conversation, read what another one had said."""
    model = ScriptedModel(lambda messages: "Noted.")
    driver = drive(Agent(model, filters=[filters.memory(sql.history, conversation=lambda context: "plans")]))
    driver.start("My secret.", thread="t", owner="ana")
    driver.start("More.", thread="t", owner="ana")
    assert sql.sessions.get("memory:plans").owner == "ana"  # type: ignore[union-attr]
    with pytest.raises(ThreadError, match="another owner"):
        driver.start("Hi", thread="t2", owner="eve")
    assert len(model.calls) == 2
    assert len(sql.history("plans").messages) == 4


@pytest.mark.parametrize("owner", ["ana", "eve", None])
def test_no_turn_runs_on_the_thread_of_a_history(drive: Drive, sql: SQLCheckpointer, owner: str | None) -> None:
    """It would read what is remembered, make itself the owner, and write into it."""
    sql.history("ana").add_messages([HumanMessage("My secret.")])
    model = ScriptedModel(["Hello."])
    with pytest.raises(ThreadError, match="is a history"):
        drive(Agent(model, checkpointer=sql)).start("Hi", thread="memory:ana", owner=owner)
    assert model.calls == []
    assert sql.sessions.get("memory:ana").owner is None  # type: ignore[union-attr]


def test_a_history_of_before_has_messages_without_ids(drive: Drive) -> None:
    store = Store()
    store("t").add_user_message("I am Ana.")
    store("t").add_ai_message("Hello, Ana.")
    model = ScriptedModel(["Ana."])
    drive(Agent(model, filters=[filters.memory(store)])).start("Who am I?", thread="t")
    assert [text for _, text in heard(model.calls[0])] == ["I am Ana.", "Hello, Ana.", "Who am I?"]
    assert len(store.heard()) == 4


def test_the_window_keeps_calls_with_their_results(drive: Drive) -> None:
    store = Store()
    model = ScriptedModel([asks(call("look", order=7)), "Here.", "Yes.", "Bye."])
    agent = Agent(model, tools=Desk().tools, filters=[filters.memory(store, window=4)])
    for text in ("Where is 7?", "Sure?", "Thanks."):
        drive(agent).start(text, thread="t")
    assert heard(model.calls[-1]) == [("human", "Sure?"), ("ai", "Yes."), ("human", "Thanks.")]
    assert len(store.heard()) == 8


@given(st.lists(KINDS, max_size=12), st.booleans(), st.integers(0, 12), st.integers(1, 12))
def test_what_is_shown_of_any_history_is_whole(kinds: list[str], whole: bool, known: int, window: int) -> None:
    """Whatever part of it the thread has too, and however broken it was stored."""
    stored = made(kinds, whole=whole)
    there = [*(stored[-known:] if known and whole else []), HumanMessage("now", id="now")]
    while there and isinstance(there[0], ToolMessage):
        there.pop(0)
    shown = joined(stored, there)
    ids = [one.id for one in shown]
    assert len(ids) == len(set(ids))
    for some in (shown, windowed(shown, window)):
        check_whole([one for one in some if not isinstance(one, SystemMessage)])
        assert some[-1].id == "now"


async def owner(context: Any) -> Any:
    return context.owner


def test_the_name_may_be_found_out_by_async_code(drive: Drive, histories: Callable[[str], Any]) -> None:
    agent = Agent(ScriptedModel(["Hello."]), filters=[filters.memory(histories, conversation=owner)])
    drive(agent).start("Hi", thread="t", owner="ana")
    assert len(histories("ana").messages) == 2


async def read(name: str) -> BaseChatMessageHistory:
    return InMemoryChatMessageHistory(messages=[HumanMessage(f"I am {name}.")])


def test_a_factory_may_be_async(drive: Drive) -> None:
    model = ScriptedModel(["Ana."])
    drive(Agent(model, filters=[filters.memory(read)])).start("Who am I?", thread="ana")
    assert model.calls[0][0].text == "I am ana."


def test_a_history_of_both_colours_is_called_in_the_one_at_hand(drive: Drive) -> None:
    class Watched(InMemoryChatMessageHistory):
        async def aget_messages(self) -> list[BaseMessage]:
            used.append("async")
            return self.messages

        async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
            used.append("async")
            self.add_messages(messages)

    used: list[str] = []
    driver = drive(Agent(ScriptedModel(["a"]), filters=[filters.memory(lambda name: Watched())]))
    driver.start("?", thread="t")
    assert len(used) == (3 if driver.mode.startswith("a") else 0)


def test_what_cannot_work_is_refused() -> None:
    store = Store()
    with pytest.raises(ConfigurationError, match="filter 'past': history is a function"):
        filters.memory(InMemoryChatMessageHistory(), name="past")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="filter 'past': window is a whole number"):
        filters.memory(store, 0, name="past")
    with pytest.raises(ConfigurationError, match="filter 'past': conversation is a function"):
        filters.memory(store, conversation="ana", name="past")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="not list"):
        Agent(ScriptedModel(["a"]), filters=[filters.memory(lambda name: [])]).invoke("?", thread="t")
