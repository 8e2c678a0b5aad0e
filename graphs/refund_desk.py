"""A small customer desk: it looks orders up by itself, and asks a person before it refunds or writes to a customer.

`SCALLION_MODEL` (`provider:name`) chooses the model; without it an offline scripted model plays the part.
`SCALLION_DB` is where conversations and approvals are kept, `SCALLION_DESK_DB` where the desk keeps its orders.
"""

import os
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parent))  # `desk` lies beside this file, from wherever it is loaded

from desk.offline import offline_model
from desk.tools import describe_email, describe_refund, list_orders, look_up_order, refund_order, send_email
from scallion import Agent, filters
from scallion.filters import Policy

agent = Agent(
    os.environ.get("SCALLION_MODEL") or offline_model(),
    name="refund_desk",
    tools=[look_up_order, list_orders, refund_order, send_email],
    filters=[
        filters.approval(
            {
                "refund_order": Policy(allowed=("approve", "edit", "reject"), describe=describe_refund),
                "send_email": Policy(allowed=("approve", "edit", "reject"), describe=describe_email),
            }
        )
    ],
    system_prompt=(
        "You are the refund desk of a small kitchen shop. Look an order up before you say anything about it. "
        "Refunds and e-mails are released by a colleague: just call the tools, and say what became of each call."
    ),
    checkpointer=os.environ.get("SCALLION_DB", "sqlite:///scallion.db"),
)
graph = agent.graph
