"""Search: what is found and what is not, alike in every database, while threads are written, changed and deleted."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

import pytest
from checkpoints.databases import everywhere, one_of_each
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage, RemoveMessage, SystemMessage, ToolMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.pregel._messages import _messages_delta_reducer
from sessions.talks import talker, tell
from sqlalchemy import create_engine, event, func, make_url, select, text

from scallion import Inbox, SQLCheckpointer, StorageError, transient
from scallion.errors import ConfigurationError
from scallion.sql import extensions, indexing, plain, searching

HALVED = "half \ud83d of a pair"
TEXTS = {
    "german": "Die Straße ist GROSS, und der Käse vom Müller auch.",
    "french": "Déjà vu au café, naïve façade",
    "chinese": "我要退款，訂單號碼是1042。",
    "japanese": "東京都の天気はとても良いです。カタカナ",
    "korean": "학교에서 만나요",
    "thai": "สวัสดีครับ",
    "hindi": "हिन्दी भाषा में",
    "russian": "Ещё раз: Йогурт",
    "turkish": "İstanbul",
    "code": 'call refund_order(1042) AND NOT x*y; don\'t -drop "quoted" col:umn',
    "emoji": "party 🎉 time 👍🏽",
    "nul": "be\0fore",
    "halved": HALVED,
    "wide": "ＦＵＬＬ ﬁne",
    "long": "x" * 5_000 + " end",
    "unseen": "in\u00advis\u200bible jo\u2060in\u200ced le\u200eft\u200d",
    "variants": "葛\U000e0100城 辻\ufe00",
}
"""What somebody said, by thread."""
CASES: dict[str, list[str]] = {
    "strasse": ["german"],
    "STRASSE": ["german"],
    "straße kase": ["german"],
    "gross": ["german"],
    "ross": [],
    "stra müll": ["german"],
    "straße café": [],
    "deja": ["french"],
    "DÉJÀ": ["french"],
    "naive facade": ["french"],
    "退款": ["chinese"],
    "退": ["chinese"],
    "訂單號碼": ["chinese"],
    "訂碼": [],
    "1042": ["chinese", "code"],
    "104": ["chinese", "code"],
    "042": [],
    "東京": ["japanese"],
    "京都": ["japanese"],
    "東京 天気": ["japanese"],
    "カタ": ["japanese"],
    "ｶﾀｶﾅ": ["japanese"],
    "학교": ["korean"],
    "교에": [],
    "สวัส": ["thai"],
    "हिन्दी": ["hindi"],
    "भाषा में": ["hindi"],
    "еще": ["russian"],
    "ёщё": ["russian"],
    "иогурт": ["russian"],
    "istanbul": ["turkish"],
    "refund_order": ["code"],
    "refund order": ["code"],
    "order_refund": ["code"],
    "AND": ["code"],
    "NOT x": ["code"],
    "x*": ["code", "long"],
    "x* OR nothing": [],
    "dont": [],
    "don't": ["code"],
    "-drop": ["code"],
    '"quoted"': ["code"],
    '"quo': ["code"],
    "col:umn": ["code"],
    "NEAR(": [],
    "column:x": [],
    "% _": [],
    "🎉": ["emoji"],
    "👍": ["emoji"],
    "👍🏿": ["emoji"],
    "🎈": [],
    "be\0fore": ["nul"],
    "fore": ["nul"],
    "before": [],
    "half \ud83d of": ["halved"],
    "full FINE": ["wide"],
    "end": ["long"],
    "x" * 300: ["long"],
    "y" * 20_000: [],
    "'; DROP TABLE words; --": [],
    "?! * -": [],
    "german": ["german"],
    "invisible": ["unseen"],
    "in\u00advisible": ["unseen"],
    "joined": ["unseen"],
    "left\u200e": ["unseen"],
    "ible": [],
    "葛城": ["variants"],
    "葛\U000e0100城": ["variants"],
    "辻": ["variants"],
}
"""Which threads each search finds."""


def found(view: Any, search: str, **asked: Any) -> list[str]:
    """The threads that a search finds, in the order of their names."""
    return sorted(one.thread for one in view.sessions.list(search=search, **asked).items)


@everywhere
async def test_the_same_search_finds_the_same_in_every_database(saver: SQLCheckpointer) -> None:
    for thread, said in TEXTS.items():
        tell(saver, thread, HumanMessage(said))
    assert {search: found(saver, search) for search in CASES} == {one: sorted(names) for one, names in CASES.items()}
    for blank in ("", "  "):
        assert found(saver, blank) == sorted(TEXTS)
    page = await saver.sessions.alist(search="1042")
    assert sorted(one.thread for one in page.items) == ["chinese", "code"]
    await saver.aclose()


def test_too_many_words_are_refused(saver: SQLCheckpointer) -> None:
    tell(saver, "t", HumanMessage(" ".join(f"w{number}x" for number in range(60))))
    assert found(saver, " ".join(f"w{number}x" for number in range(50))) == ["t"]
    with pytest.raises(ConfigurationError, match="50 words at most, not for 51"):
        saver.sessions.list(search=" ".join(f"w{number}x" for number in range(51)))


SAID = {
    "a person": HumanMessage("canary"),
    "a model": AIMessage("canary"),
    "blocks": AIMessage([{"type": "text", "text": "a"}, {"type": "text", "text": "canary"}]),
    "a dict": {"role": "user", "content": "canary"},
    "a pair": ("user", "canary"),
}
SILENT = {
    "a tool": ToolMessage("canary", tool_call_id="1"),
    "arguments": AIMessage("", tool_calls=[{"name": "canary", "args": {"canary": "canary"}, "id": "canary"}]),
    "a block of a call": AIMessage([{"type": "tool_use", "id": "1", "name": "canary", "input": {"q": "canary"}}]),
    "reasoning": AIMessage([{"type": "reasoning", "reasoning": "canary", "text": "canary"}]),
    "a system": SystemMessage("canary"),
    "a passage for one turn": transient(HumanMessage("canary")),
    "metadata": AIMessage("", response_metadata={"canary": "canary"}, name="canary", id="canary"),
}


@one_of_each
def test_what_people_and_models_say_is_searched_and_nothing_else(saver: SQLCheckpointer) -> None:
    for thread, message in (SAID | SILENT).items():
        tell(saver, thread, HumanMessage("hello"), message, AIMessage("bye" * 200), note="canary")
    assert found(saver, "canary") == sorted(SAID)
    assert found(saver, "hello") == sorted(SAID | SILENT)


@one_of_each
def test_title_and_name_are_searched(saver: SQLCheckpointer) -> None:
    tell(saver, "order-7a", HumanMessage("hello"))
    assert found(saver, "7a ORDER") == ["order-7a"]
    assert saver.sessions.rename("order-7a", "Lost parcel")
    assert found(saver, "parcel") == ["order-7a"]
    assert saver.sessions.rename("order-7a", "Found again")
    assert found(saver, "parcel") == []
    assert found(saver, "found hello 7") == ["order-7a"]
    assert saver.sessions.list(search="again").items[0].found is None


@one_of_each
def test_a_thread_that_goes_on_is_read_from_where_it_was_read_to(saver: SQLCheckpointer) -> None:
    agent = talker(saver)
    agent.invoke("the first of them", thread="t")
    assert found(saver, "first") == ["t"]
    for number in range(5):
        agent.invoke(f"number{number} " + "." * 200, thread="t")
        assert found(saver, f"number{number} first") == ["t"]
    (fresh,) = read_again(saver, "t")
    assert fresh.words.keys() >= {"first", "number0", "number4"}
    agent.invoke("one more", thread="t")
    (fresh,) = saver.database.run(lambda conn: indexing.read(conn, saver.database.tables, None, 0))
    assert fresh.grown
    assert "more" in fresh.words
    assert not {"first", "number0"} & fresh.words.keys()


@one_of_each
def test_the_whole_index_is_made_anew(saver: SQLCheckpointer) -> None:
    """Behind a program of the version before, which moves threads on and marks nothing; of an owner theirs alone."""
    agent, t = talker(saver), saver.database.tables
    owners = {"t": "ana", "u": "ben"}
    for thread, owner in owners.items():
        agent.invoke("before", thread=thread, owner=owner)
    assert found(saver, "before") == ["t", "u"]
    for thread, owner in owners.items():
        agent.invoke("meanwhile " + "." * 200, thread=thread, owner=owner)
    saver.database.run(lambda conn: conn.execute(t.sessions.update().values(unindexed=None)), write=True)
    saver.database.run(lambda conn: conn.execute(t.words.delete().where(t.words.c.word == "before")), write=True)
    assert found(saver, "meanwhile") == []
    assert saver.sessions.index() == 0
    assert saver.for_owner("ana").sessions.index(all=True) == 1
    assert found(saver, "meanwhile before") == ["t"]
    assert asyncio.run(saver.sessions.aindex(all=True)) == 2
    assert found(saver, "meanwhile before") == ["t", "u"]
    assert saver.sessions.index() == 0


def read_again(saver: SQLCheckpointer, thread: str) -> list[indexing.Fresh]:
    """What would be indexed of the thread from the beginning; then it is."""
    t = saver.database.tables
    no = saver.database.run(lambda conn: conn.execute(select(t.sessions.c.no)).scalar_one())
    saver.database.run(lambda conn: searching.forget(conn, t, no), write=True)
    fresh = saver.database.run(lambda conn: indexing.read(conn, t, None, 0))
    saver.sessions.index()
    return fresh


@one_of_each
def test_what_is_gone_is_not_found(saver: SQLCheckpointer) -> None:
    """By a rewind, an edit, a removal, a prune or a delete."""
    session = talker(saver).session("t")
    session.send("apple")
    session.send("banana " + "." * 300)
    session.send("cherry")
    assert found(saver, "banana") == ["t"]
    session.rewind(to=session.history[0])
    assert (found(saver, "banana"), found(saver, "cherry"), found(saver, "apple")) == ([], [], ["t"])
    session.edit_message(session.history[0].sent[0].id, "avocado")
    assert (found(saver, "apple"), found(saver, "avocado")) == ([], ["t"])
    session.fork(thread="copy")
    assert found(saver, "avocado") == ["copy", "t"]
    saver.prune(["t"])
    session.send("damson")
    assert found(saver, "damson avocado") == ["t"]
    saver.sessions.delete("t")
    assert found(saver, "avocado") == ["copy"]
    saver.sessions.delete("copy")
    assert words(saver) == []


def words(saver: SQLCheckpointer) -> Sequence[str]:
    """Every word that the database has, and everything else that was indexed."""
    t = saver.database.tables
    many = select(func.count()).select_from(t.indexed)
    found = saver.database.run(lambda conn: [*conn.execute(select(t.words.c.word)).scalars()])
    return [*found, *(["indexed"] if saver.database.run(lambda conn: conn.execute(many).scalar()) else [])]


@one_of_each
def test_a_message_that_the_graph_removes_is_not_found(saver: SQLCheckpointer) -> None:
    graph = StateGraph(MessagesState).add_node("n", lambda state: None).add_edge(START, "n").compile(checkpointer=saver)
    place: Any = {"configurable": {"thread_id": "t"}}
    long = [HumanMessage(f"filler {'.' * 100}", id=f"f{number}") for number in range(5)]
    graph.invoke({"messages": [*long, HumanMessage("secret", id="1"), HumanMessage("public", id="2")]}, place)
    assert found(saver, "secret") == ["t"]
    graph.invoke({"messages": [RemoveMessage("1"), HumanMessage("changed", id="2")]}, place)
    assert (found(saver, "secret"), found(saver, "public"), found(saver, "changed")) == ([], [], ["t"])
    assert "secret" not in words(saver)
    saver.delete_for_runs([one.metadata["run_id"] for one in saver.list(place) if "run_id" in one.metadata])


@one_of_each
def test_a_run_that_is_deleted_is_not_found(saver: SQLCheckpointer) -> None:
    tell(saver, "t", HumanMessage("kept"), run_id="r1")
    tell(saver, "t", HumanMessage("kept"), HumanMessage("gone"), step=2, run_id="r2")
    assert found(saver, "gone") == ["t"]
    saver.delete_for_runs(["r2"])
    assert (found(saver, "gone"), found(saver, "kept")) == ([], ["t"])


class Delta(TypedDict):
    messages: Annotated[list[AnyMessage], DeltaChannel(_messages_delta_reducer, snapshot_frequency=3)]


class Other(TypedDict):
    talk: list[Any]
    messages: str


@one_of_each
def test_conversations_of_any_graph_are_searched(saver: SQLCheckpointer) -> None:
    """Those of delta channels, of channels of other names, and what was loaded or copied."""
    place: Any = {"configurable": {"thread_id": "delta"}}
    graph = StateGraph(Delta).add_node("n", lambda state: {"messages": [AIMessage(f"answer{len(state['messages'])}")]})
    deltas = graph.add_edge(START, "n").compile(checkpointer=saver)
    for number in range(6):
        deltas.invoke({"messages": [HumanMessage(f"question{number}")]}, place)
        assert found(saver, f"question{number} question0 answer1") == ["delta"]
    other = StateGraph(Other).add_node("n", lambda state: None).add_edge(START, "n").compile(checkpointer=saver)
    long = [HumanMessage(f"elsewhere {number} {'.' * 100}") for number in range(4)]
    other.invoke({"talk": long, "messages": "nothing"}, {"configurable": {"thread_id": "other"}})
    assert found(saver, "elsewhere") == ["other"]
    saver.sessions.load(list(saver.sessions.export("delta")), "loaded")
    saver.copy_thread("delta", "copied")
    assert found(saver, "question3") == ["copied", "delta", "loaded"]


@one_of_each
def test_filters_and_pages_add_up(saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same threads in the same order, whether the words are seldom or in many threads."""
    for number in range(12):
        said = f"common parcel {'even' if number % 2 == 0 else 'odd'} n{number}"
        tell(saver, f"t{number}", HumanMessage(said), owner="ana" if number % 3 else "bob")
        saver.sessions.tag(f"t{number}", "red" if number < 6 else "blue")
    for seldom in (2_000, 0, 5):
        monkeypatch.setattr(searching, "SELDOM", seldom)
        assert walked(saver, search="parcel even") == ["t10", "t8", "t6", "t4", "t2", "t0"]
        assert walked(saver, search="common even", order="created", owner="ana") == ["t10", "t8", "t4", "t2"]
        assert walked(saver, search="parcel", tag="red", owner="bob", status="idle") == ["t3", "t0"]
        assert walked(saver, search="n1 common") == ["t11", "t10", "t1"]
        assert walked(saver, search="n1 even blue") == []


def walked(saver: SQLCheckpointer, **asked: Any) -> list[str]:
    names: list[str] = []
    after = None
    while True:
        page = saver.sessions.list(limit=2, after=after, **asked)
        names += [one.thread for one in page.items]
        if (after := page.next) is None:
            return names


@one_of_each
def test_an_owner_finds_their_own(saver: SQLCheckpointer) -> None:
    for owner in ("ana", "bob"):
        tell(saver, f"of {owner}", HumanMessage("the secret"), owner=owner)
    tell(saver, "of nobody", HumanMessage("the secret"))
    ana = saver.for_owner("ana")
    assert found(ana, "secret") == ["of ana"]
    assert saver.database.run(lambda conn: searching.is_behind(conn, saver.database.tables, "bob", 0))
    assert found(saver, "secret", owner="bob") == ["of bob"]
    assert found(Inbox(saver.database.engine).for_owner("ana"), "secret") == ["of ana"]
    assert ana.sessions.index() == 0
    assert saver.sessions.index() == 1
    with pytest.raises(ConfigurationError):
        ana.sessions.list(search="secret", owner="bob")


@one_of_each
def test_where_it_was_said(saver: SQLCheckpointer) -> None:
    long = "word " * 100
    tell(saver, "t", HumanMessage("Hello"), AIMessage(f"{long}the  Äpfel\nare ripe {long}"), AIMessage("apfel again"))
    tell(saver, "short", HumanMessage("An apfel a day"))
    shown = {one.thread: one.found for one in saver.sessions.list(search="apfel").items}
    assert shown["short"] == "An apfel a day"
    assert shown["t"] is not None
    assert shown["t"].startswith("…word word")
    assert "the Äpfel are ripe" in shown["t"]
    assert shown["t"].endswith("…")
    assert len(shown["t"]) < 130
    assert saver.sessions.list().items[0].found is None
    assert saver.sessions.list(search="apfel").items[0].to_json()["found"]


@one_of_each
def test_where_it_was_said_that_was_a_name_before(saver: SQLCheckpointer) -> None:
    """The thread was indexed with its name and title alone when somebody says the word."""
    agent = talker(saver)
    agent.invoke("hello", thread="pineapple")
    saver.sessions.rename("pineapple", "Travel")
    assert found(saver, "pineapple travel") == ["pineapple"]
    agent.invoke("pineapple juice to travel with", thread="pineapple")
    for word in ("pineapple", "travel"):
        (one,) = saver.sessions.list(search=word).items
        assert one.found is not None
        assert "juice to travel" in one.found


@one_of_each
def test_a_turn_does_nothing_for_it(saver: SQLCheckpointer) -> None:
    talker(saver).invoke("hello", thread="t")
    assert words(saver) == []
    assert saver.sessions.index() == 1
    assert saver.sessions.index() == 0
    assert "hello" in words(saver)


def test_a_search_with_nothing_new_only_reads(saver: SQLCheckpointer) -> None:
    tell(saver, "t", HumanMessage("hello"))
    assert found(saver, "hello") == ["t"]
    seen: list[str] = []
    event.listen(saver.database.engine, "before_cursor_execute", lambda *given: seen.append(given[2]))
    assert found(saver, "hello") == ["t"]
    assert {one.split()[0] for one in seen} == {"SELECT"}


@one_of_each
@pytest.mark.parametrize("where", ["reading", "writing"])
def test_what_changes_meanwhile_is_found_as_it_is_then(
    saver: SQLCheckpointer, where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(saver, "t", HumanMessage("old"))
    tell(saver, "deleted", HumanMessage("old"))
    tell(saver, "u", HumanMessage("old"))
    verb = "read" if where == "reading" else "write"
    step, once = getattr(indexing, verb), iter([True])

    def meanwhile(*given: Any, **options: Any) -> Any:
        done = step(*given, **options) if where == "reading" else None
        if next(once, False):
            with SQLCheckpointer(saver.database.url) as other:
                tell(other, "t", HumanMessage("new"), step=2)
                other.sessions.delete("deleted")
        return done if where == "reading" else step(*given, **options)

    if where == "writing" and saver.database.is_sqlite:
        pytest.skip("nobody else writes while SQLite is written")
    monkeypatch.setattr(indexing, verb, meanwhile)
    assert saver.sessions.index() == 2
    monkeypatch.undo()
    assert (found(saver, "old"), found(saver, "new")) == (["u"], ["t"])
    assert "old" in words(saver)


@one_of_each
def test_who_is_killed_in_the_middle_has_done_a_part(saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "BATCH", 2)
    for number in range(7):
        tell(saver, f"t{number}", HumanMessage("hello"))
    write, left = indexing.write, iter([True, True])

    def die(conn: Any, *given: Any) -> int:
        count = write(conn, *given)
        if not next(left, False):
            raise KeyboardInterrupt
        return count

    monkeypatch.setattr(indexing, "write", die)
    with pytest.raises(KeyboardInterrupt):
        saver.sessions.index()
    monkeypatch.setattr(indexing, "write", write)
    assert saver.sessions.index() == 3
    assert len(found(saver, "hello")) == 7


@one_of_each
def test_two_search_at_once_while_a_third_one_writes(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "BATCH", 5)
    with SQLCheckpointer(database) as saver, SQLCheckpointer(database) as other:
        for number in range(40):
            tell(saver, f"t{number}", HumanMessage(f"hello n{number}"))
        results: list[Any] = []
        searches = [threading.Thread(target=lambda: results.append(len(found(other, "hello")))) for _ in range(2)]
        for one in searches:
            one.start()
        for step in range(2, 12):
            for number in range(0, 40, 9):
                tell(saver, f"t{number}", HumanMessage(f"hello n{number} again{step}"), step=step)
        for one in searches:
            one.join()
        assert results == [40, 40]
        assert len(found(saver, "again11")) == 5
        assert found(saver, "again10") == []


@one_of_each
def test_what_changes_whenever_it_is_read_is_found(saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    tell(saver, "t", HumanMessage("hello"))
    read, steps, turns = indexing.read, iter(range(2, 99)), list[threading.Thread]()

    def say_more() -> None:
        with SQLCheckpointer(saver.database.url) as other:
            tell(other, "t", HumanMessage("hello again"), step=next(steps))

    def meanwhile(*given: Any, **options: Any) -> Any:
        found = read(*given, **options)
        if found:
            turns.append(threading.Thread(target=say_more))
            turns[-1].start()
            turns[-1].join(1)  # not longer, as it may have to wait for who reads
        return found

    monkeypatch.setattr(indexing, "read", meanwhile)
    assert found(saver, "hello") == ["t"]
    for turn in turns:
        turn.join()
    assert len(turns) > 1
    monkeypatch.undo()
    assert found(saver, "again") == ["t"]


@one_of_each
def test_an_encrypted_database_is_searched_by_names_alone(database: str) -> None:
    one, two = b"1" * 32, b"2" * 32
    with SQLCheckpointer(database) as saver:
        tell(saver, "order-7", HumanMessage("canary"))
        assert found(saver, "canary") == ["order-7"]
        saver.rekey(one)
        assert words(saver) == []
    with SQLCheckpointer(database, key=one) as saver:
        tell(saver, "order-8", HumanMessage("canary"))
        saver.sessions.rename("order-8", "A canary")
        assert (found(saver, "canary"), found(saver, "order")) == ([], ["order-7", "order-8"])
        assert {*words(saver)} == {"order", "7", "8", "indexed"}
        saver.rekey(two)
        assert found(saver, "8") == ["order-8"]
        saver.rekey(None)
        assert found(saver, "canary") == ["order-7", "order-8"]


@pytest.mark.parametrize("database", ["postgresql", "mariadb"], indirect=True)
def test_who_may_only_read_searches_what_others_indexed(database: str) -> None:
    with SQLCheckpointer(database) as saver:
        tell(saver, "t", HumanMessage("hello"))
        assert found(saver, "hello") == ["t"]
        tell(saver, "u", HumanMessage("hello"))
        engine = create_engine(make_url(database))
        is_postgres = engine.dialect.name == "postgresql"
        only_read = "SET default_transaction_read_only = on" if is_postgres else "SET SESSION TRANSACTION READ ONLY"
        event.listen(engine, "connect", lambda raw, record: raw.cursor().execute(only_read) and raw.commit())
        with Inbox(engine) as reader:
            assert found(reader, "hello") == ["t"]
            with pytest.raises(StorageError):
                reader.sessions.index()
        engine.dispose()
        assert found(saver, "hello") == ["t", "u"]


def test_a_thread_that_is_damaged_is_found_by_its_name(saver: SQLCheckpointer) -> None:
    for thread in ("whole", "hurt-leaves", "hurt-items"):
        tell(saver, thread, HumanMessage("hello " + "." * 300), AIMessage("deep"))
    hurt = "(SELECT no FROM sessions WHERE thread = 'hurt-{0}')"
    with saver.database.engine.begin() as conn:
        conn.execute(text(f"UPDATE checkpoints SET leaves = x'00' WHERE session = {hurt.format('leaves')}"))
        conn.execute(text(f"UPDATE items SET data = x'c1' WHERE session = {hurt.format('items')} AND type <> 'form'"))
    assert found(saver, "deep") == ["whole"]
    assert found(saver, "hurt hello") == ["hurt-items", "hurt-leaves"]


def test_a_huge_thread_is_a_batch_of_its_own(saver: SQLCheckpointer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "MOST", 5)
    for number in range(4):
        tell(saver, f"t{number}", HumanMessage(" ".join(f"w{number}x{word}" for word in range(10))))
    assert saver.sessions.index() == 4
    assert found(saver, "w3x9") == ["t3"]


def test_the_extension_of_delta_channels_has_that_number() -> None:
    assert plain.DELTA == extensions.DELTA


def test_ranges_behind_others() -> None:
    assert indexing.behind([0, 0, 4], [0, 0, 9]) == [(5, 9)]
    assert indexing.behind([0, 0, 4], [0, 0, 4]) == []
    assert indexing.behind([0, 0, 4], [0, 0, 4, 7, 9]) == [(7, 9)]
    assert indexing.behind([0, 0, 4, 6, 7], [0, 0, 4, 6, 8, 10, 11]) == [(8, 8), (10, 11)]
    assert indexing.behind([0, 0, 4], [0, 0, 3, 5, 9]) is None
    assert indexing.behind([0, 0, 4], [0, 1, 9]) is None
    assert indexing.behind([0, 0, 4, 6, 7], [0, 0, 9]) is None
    assert indexing.behind([0, 0, 4], [0, 0, 2]) is None
