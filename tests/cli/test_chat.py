"""`chat`, driven by plain input lines."""

from collections.abc import Callable
from pathlib import Path

from tests.cli.command import CLERK, Command

Ask = Callable[..., list[str]]


def lines(*typed: str) -> str:
    """The lines of an input that ends then."""
    return "".join(f"{line}\n" for line in typed)


def test_a_conversation(here: Command) -> None:
    """Tokens, tool calls as lines, and an end without anything open."""
    done = here("chat", CLERK, "--thread", "t", typed=lines("hello", "", "slow"))
    assert done.status == 0
    assert done.out.startswith("thread t. ")
    assert "You said hello.\n" in done.out
    assert "Let me see.\n→ slow\n✓ slow (1.0 s)\nResults: waited\n" in done.out


def test_cards(here: Command) -> None:
    """Only what is allowed is offered; a reason and an answer are asked for."""
    done = here(
        "chat",
        CLERK,
        "--thread",
        "t",
        "--by",
        "ana",
        typed=lines("both", "s", "r", "too much", "s", "", "s", "no need"),
    )
    assert done.status == 0
    assert done.out.count("(a)pprove (e)dit (r)eject (l)ater > ") == 2
    assert "one of: a, e, r, l" in done.out
    assert "(a)pprove (e)dit (r)eject re(s)pond (l)ater > " in done.out
    assert "not taken: an answer is needed" in done.out
    assert "it did not run: too much; no need" in done.out
    assert "recorded: pay, reject by ana: too much\n" in done.out
    assert "recorded: mail, respond by ana: no need\n" in done.out
    assert done.out.count("✗ pay rejected by a person\n") == done.out.count("✓ mail answered by a person\n") == 1
    assert "→" not in done.out  # nothing ran
    assert {one["decided_by"] for one in here("pending", "--status", "used", "--json").data["items"]} == {"ana"}


def test_what_waits_is_answered_behind_the_card(here: Command) -> None:
    """A message to a paused thread is queued, or answered beside it, as the agent was built to."""
    done = here("chat", f"{CLERK}:patient", "--thread", "t", typed=lines("pay", "l", "hello", "a"))
    assert done.status == 0
    assert "1 message(s) queued: answered when that is decided\n" in done.out
    assert done.out.index("Results: paid 7\n") < done.out.index("You said hello.\n")
    done = here("chat", f"{CLERK}:obliging", "--thread", "u", typed=lines("pay", "l", "hello"))
    assert done.status == 3
    assert "You said hello.\nanswered in thread u#" in done.out


def test_a_vote_and_a_card_that_came_too_late(here: Command) -> None:
    """A vote is told and not asked for again; what has expired is told, and the turn goes on without it."""
    strict = f"{CLERK}:strict"
    done = here("chat", strict, "--thread", "t", "--by", "ana", typed=lines("pay", "a", "l"))
    assert done.status == 3
    assert "2 people have to decide the same; 0 voted so far" in done.out
    assert "recorded: pay, approve, a vote of ana; 2 people have to decide the same\n" in done.out
    again = here("chat", strict, "--thread", "t", "--by", "bo", typed=lines("a"))
    assert "vote: approve by ana" in again.out
    assert "Results: paid 7" in again.out
    here("run", strict, "unsafe", "--thread", "late")
    late = here("chat", strict, "--thread", "late", typed="")
    assert late.status == 0
    assert "expired: mail; nobody decided in time\n" in late.out
    assert "✗ mail expired: nobody decided in time\n" in late.out
    assert "nobody refused it. The call did not run." in late.out


def test_who_asks_does_not_decide(here: Command) -> None:
    """Another one does, in the same chat or later."""
    chat = ("chat", f"{CLERK}:separate", "--thread", "t", "--user", "ana", "--owner", "shop")
    done = here(*chat, "--by", "ana", typed=lines("pay", "a", "l"))
    assert (done.status, "asked for this" in done.out + done.err) == (3, True)
    assert "Results: paid 7" in here(*chat, "--by", "bo", typed=lines("a")).out


def test_later(here: Command) -> None:
    """The chat ends with status 3, the next one shows the card first."""
    done = here("chat", CLERK, "--thread", "t", typed=lines("pay", "l", "hello", "l"))
    assert done.status == 3
    assert "the thread waits for a decision first; the message was not sent" in done.out
    assert f"scallion chat {CLERK} --thread t" in done.out
    again = here("chat", CLERK, "--thread", "t", typed=lines("a", "hello"))
    assert again.status == 0
    assert "Results: paid 7\n" in again.out
    assert "You said hello." in again.out


def test_later_on_one_of_several(here: Command) -> None:
    """What is decided runs; what is left is not asked again until somebody wants to go on."""
    done = here("chat", CLERK, "--thread", "t", typed=lines("both", "a", "l"))
    assert done.status == 3
    assert done.out.count("(l)ater > ") == 2
    assert done.out.index("✓ pay (") < done.out.index("left for later: ")
    again = here("chat", CLERK, "--thread", "t", typed=lines("l", "/resume", "a"))
    assert again.status == 0
    assert again.out.count("(l)ater > ") == 2
    assert "Results: paid 7; sent to mira" in again.out


def test_a_decision_made_elsewhere(here: Command, paused: Ask) -> None:
    """Is used when the chat goes on; a decision of the chat is not lost when its input ends before the next card."""
    pay, mail = paused("both")
    assert here("chat", CLERK, "--thread", "t", typed=lines("a")).status == 3
    assert [one["id"] for one in here("pending", "--status", "decided", "--json").data["items"]] == [pay]
    here("approve", mail)
    done = here("chat", CLERK, "--thread", "t")
    assert done.status == 0
    assert "decided already: mail, approve by " in done.out
    assert "Results: paid 7; sent to mira" in done.out


def test_editing_on_a_card(here: Command, editor: Callable[..., None], place: Path) -> None:
    """The arguments are checked before they are taken, and shown; giving up shows the keys again."""
    editor('{"order": "x"}', "nonsense", '{"order": 5}')
    done = here("chat", CLERK, "--thread", "t", typed=lines("pay", "e", "", "n", "e"))
    assert done.status == 0
    assert done.err.count("not taken: the arguments are not JSON") == 1
    assert (done.out + done.err).count("not taken") == 2
    assert ", edit by" in done.out
    assert done.out.index('"order": 5') < done.out.index("→ pay")
    assert "paid 5" in done.out


def test_an_error_does_not_end_the_chat(here: Command) -> None:
    """It is told in a line; the turn can be given up."""
    done = here("chat", CLERK, "--thread", "t", typed=lines("crash", "hello"))
    assert done.err.startswith("error: the model failed: ValueError; the thread is interrupted: /resume goes on")
    assert "You said hello." in done.out


def test_an_interrupted_turn_is_offered(here: Command) -> None:
    """When a chat is opened on its thread; whoever declines may still ask for it."""
    here("run", CLERK, "crash", "--thread", "t")
    done = here("chat", CLERK, "--thread", "t", typed=lines("n", "/resume", "hello", "/resume"))
    assert "Go on with it? [Y/n]" in done.out
    assert done.err.count("the model failed") == 1
    assert "nothing is open" in done.out


def test_text_that_was_taken_back(here: Command, place: Path) -> None:
    """Is marked."""
    (place / "broken_retry_clerk.py").write_text(
        "from scallion import Agent, around_chat\n"
        "from scallion.testing import ScriptedModel\n"
        "@around_chat\n"
        "def twice(request, state, next):\n"
        "    next(request)\n"
        "    return next(request)\n"
        "agent = Agent(ScriptedModel(['First.', 'Second.']), filters=[twice], checkpointer='sqlite://')\n"
    )
    done = here("chat", "broken_retry_clerk.py", typed=lines("hello"))
    assert "First.\n[retracted: the text above does not stand]\nSecond.\n" in done.out
    assert here("run", "broken_retry_clerk.py", "hello").out == "Second.\n"


def test_an_answer_that_no_model_gave(here: Command, place: Path) -> None:
    """A tool's result that is the answer is not mixed with what the model said before it."""
    (place / "broken_direct_clerk.py").write_text(
        "from langchain_core.messages import AIMessage\n"
        "from langchain_core.tools import tool\n"
        "from scallion import Agent\n"
        "from scallion.testing import ScriptedModel\n"
        "@tool(return_direct=True)\n"
        "def fetch() -> str:\n"
        "    'Fetch it.'\n"
        "    return 'fetched'\n"
        "call = {'name': 'fetch', 'args': {}, 'id': '1'}\n"
        "agent = Agent(ScriptedModel([AIMessage('Wait.', tool_calls=[call])]), tools=[fetch])\n"
    )
    assert here("run", "broken_direct_clerk.py", "hello").out == "fetched\n"


def test_commands(here: Command) -> None:
    """One that is not known is no message; a path is, and whatever has a space in front."""
    done = here("chat", CLERK, "--thread", "t", typed=lines("/resum", "/help", "/etc/hosts", " /x", "/quit", "hello"))
    assert done.status == 0
    assert "unknown command /resum: " in done.out
    assert "\n/quit " in done.out
    assert "You said /etc/hosts." in done.out
    assert "You said /x." in done.out
    assert "/resum." not in done.out
    assert "hello" not in done.out


def test_what_may_have_run_is_named(here: Command, there: Command, place: Path) -> None:
    """Only yes is a yes; what else is typed is kept until the question is answered."""
    assert there("run", CLERK, "die", "--thread", "t").status == 9
    asked = "The last turn was interrupted. die may have run already; going on runs it again. Go on with it? [Y/n] "
    left = here("chat", CLERK, "--thread", "t", typed=lines("maybe", "n"))
    assert left.out.count(asked) == 2
    assert "you> maybe\nYou said maybe." in left.out
    (place / "log").unlink()
    assert there("run", CLERK, "die", "--thread", "u").status == 9
    done = here("chat", CLERK, "--thread", "u", typed=lines("/frob", "hello", "yes"))
    assert "unknown command /frob" in done.out
    assert done.out.index("Results: marked; lived") < done.out.index("You said hello.")
    assert here("chat", CLERK, "--thread", "u", typed=lines("/quit")).status == 0
