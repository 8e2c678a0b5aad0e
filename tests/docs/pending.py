"""Print the id of an approval that pends in the database of SCALLION_DB; make one if there is none."""

import os

from langchain_core.messages import AIMessage

from scallion import Agent, Paused, SQLCheckpointer, filters
from scallion.testing import ScriptedModel


def refund_order(order_id: int) -> str:
    """Refund an order."""
    return f"Order {order_id} is refunded."


with SQLCheckpointer(os.environ.get("SCALLION_DB", "sqlite:///scallion.db")) as saver:
    open_now = saver.approvals.list().items
    if not open_now:
        call = {"name": "refund_order", "args": {"order_id": 7}, "id": "call-1"}
        model = ScriptedModel([AIMessage("", tool_calls=[call])])
        gate = filters.approval({"refund_order": True})
        result = Agent(model, tools=[refund_order], filters=[gate], checkpointer=saver).invoke("Refund order 7")
        assert isinstance(result, Paused)
        open_now = result.approvals
    print(open_now[-1].id)
