"""Standing rules from the command line."""

from collections.abc import Callable

from tests.cli.command import CLERK, Command

Ask = Callable[..., list[str]]


def test_approved_always_it_is_not_asked_about_again(here: Command, paused: Ask) -> None:
    """The same call, in any thread; another call is."""
    (id,) = paused("pay")
    done = here("approve", id[:8], "--always", "--by", "ana")
    assert (done.status, "rule 1: allow pay, arguments: exactly " in done.err, "approve, by ana" in done.out) == (
        0,
        True,
        True,
    )
    assert here("run", CLERK, "pay", "--thread", "u").status == 0
    (rule,) = here("rules", "list", "--json").data["items"]
    assert (rule["tool"], rule["created_by"], rule["used"], rule["thread"]) == ("pay", "ana", 1, None)
    assert "allow" in here("rules", "list").out
    revoked = here("rules", "revoke", "1", "--by", "bo")
    assert (revoked.status, "revoked by bo" in revoked.out) == (0, True)
    assert here("run", CLERK, "pay", "--thread", "v").status == 3
    assert here("rules", "list").out == "there are no rules\n"
    assert "revoked by bo" in here("rules", "list", "--ended").out


def test_rejected_for_a_thread_it_is_denied_there(here: Command, paused: Ask) -> None:
    """With any arguments, if that is said."""
    (id,) = paused("pay")
    assert here("reject", id, "--this-thread", "--any-args", "-m", "no").status == 0
    assert here("resume", CLERK, "t").status == 0
    assert here("run", CLERK, "pay", "--thread", "t").status == 0
    assert here("run", CLERK, "pay", "--thread", "u").status == 3
    assert here("rules", "list", "--thread", "t", "--json").data["items"][0]["verdict"] == "deny"


def test_what_makes_no_rule_decides_nothing(here: Command, paused: Ask) -> None:
    """Neither the decision nor the rule is stored."""
    (question,) = paused("ask", "q")
    assert here("reject", question, "--always").status == 1
    (id,) = paused("pay")
    assert here("approve", id, "--any-args").status == 2
    assert here("approve", id, "--always", "--this-thread").status == 2
    assert len(here("pending", "--json").data["items"]) == 2
    assert here("rules", "list", "--json").data["items"] == []


def test_rules_are_added(here: Command, paused: Ask) -> None:
    """With all that limits them."""
    paused("pay")
    pattern = '{"properties": {"order": {"maximum": 9}}, "required": ["order"]}'
    made = here("rules", "add", "pay", "--pattern", "-", "--expires-in", "30d", "--uses", "2", "--json", typed=pattern)
    assert (made.data["verdict"], made.data["uses_left"], made.data["pattern"]["required"]) == ("allow", 2, ["order"])
    assert here("rules", "add", "pay", "--deny", "--thread", "x", "--args", '{"order": 1}', "--by", "ana").status == 0
    assert here("run", CLERK, "pay", "--thread", "u").status == 0
    for wrong, status in (("null", 2), ("[1]", 2), ("{secret", 1)):
        refused = here("rules", "add", "pay", "--args", wrong)
        assert (refused.status, "secret" in refused.err) == (status, False)
    assert here("rules", "add", "pay", "--args", "{}", "--pattern", "{}").status == 1
    assert here("rules", "revoke", "99").status == 1
    assert len(here("rules", "list", "--json").data["items"]) == 2
