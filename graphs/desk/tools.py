"""What the desk can do; who may let it do so is said where the agent is composed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from langchain_core.tools import tool

from desk import tables


@tool
def list_orders() -> str:
    """List all orders, one a line."""
    return "\n".join(_line(order) for order in tables.orders())


@tool
def look_up_order(order_id: int) -> str:
    """Look up an order: customer, e-mail address, item, price and what was refunded."""
    return _line(tables.order(order_id))


@tool
def refund_order(order_id: int, reason: str, amount: float | None = None) -> str:
    """Refund an order: `amount` in euros, or all that is left of its price."""
    cents = None if amount is None else round(amount * 100)
    number, given = tables.refund(order_id, cents, reason)
    return f"Refund {number}: {tables.euros(given)} of order {order_id} go back to the customer."


@tool
def send_email(to: str, subject: str, body: str) -> str:
    """Send an e-mail to a customer."""
    return f"E-mail {tables.send(to, subject, body)} to {to} is on its way: {subject}"


send_email.metadata = {"sensitive": True}


def describe_refund(call: Mapping[str, Any]) -> str:
    """The refund in one sentence, for whoever decides."""
    args = call["args"]
    amount = args.get("amount")
    what = "all that is left" if amount is None else f"{amount:.2f} EUR"
    return f"Refund {what} of order {args.get('order_id')}. Reason: {args.get('reason')}"


def describe_email(call: Mapping[str, Any]) -> str:
    """The e-mail as the customer would read it."""
    args = call["args"]
    return f"To {args.get('to')}: {args.get('subject')}\n\n{args.get('body')}"


def _line(order: Any) -> str:
    paid = f"{order['customer']} <{order['email']}>, {order['item']}, {tables.euros(order['cents'])}"
    back = f", refunded {tables.euros(order['refunded'])}" if order["refunded"] else ""
    return f"Order {order['id']} of {order['ordered_on']}: {paid}{back}"
