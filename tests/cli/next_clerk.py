"""The clerk as a new deploy has it: each agent differs in one thing from the one that asked."""

import os
from typing import Any

from tests.cli.clerk import answer, mail, model, pay

from scallion import Agent, Filter, Policy, filters
from scallion.testing import ScriptedModel
from scallion.tools import ask_human

GATES: Any = {"pay": Policy(allowed=("approve", "edit", "reject")), "mail": True}


def deployed(tools: list[Any], gate: Any, name: str = "clerk", checkpointer: Any = None, filters_: Any = ()) -> Agent:
    """A clerk of another release."""
    place = checkpointer or os.environ["SCALLION_DB"]
    return Agent(model, name=name, tools=tools, filters=[*filters_, filters.approval(gate)], checkpointer=place)


def typed(order: str, reason: str = "") -> str:
    """Pay an order."""
    return f"paid {order} {reason}"


typed.__name__ = "pay"
more = deployed(
    [pay, mail, ask_human], GATES, filters_=[Filter("more", around_tool=lambda request, state, next: next(request))]
)
other_type = deployed([typed, mail, ask_human], GATES)
no_mail = deployed([pay, ask_human], {"pay": GATES["pay"]})
stricter = deployed([pay, mail, ask_human], {**GATES, "pay": Policy(allowed=("reject",))})
expiring = deployed([pay, mail, ask_human], {"pay": Policy(expires_in=0.1)})
renamed = deployed([typed, mail, ask_human], GATES, name="cashier")
ungated = Agent(
    ScriptedModel(answer), name="clerk", tools=[pay, mail, ask_human], checkpointer=os.environ["SCALLION_DB"]
)
