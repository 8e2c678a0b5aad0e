"""A model that plays the desk by rules: enough English for a demonstration, no network, and it says what it is.

It reads everything from the messages, so that a conversation goes on in any process. Each answer is one step: look the
order up, then call what was wished for (several calls in one message), then say what became of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import uuid4

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from scallion.testing import ScriptedModel

NOTE = "(I am an offline scripted model: set SCALLION_MODEL to provider:name for a real one.)"
HELP = "I can look up, refund and e-mail about an order. Try: refund order 1042 and email the customer."
OFFER_REFUND = "Shall I refund it?"
OFFER_EMAIL = "Shall I email the customer about it?"


def offline_model() -> BaseChatModel:
    """The scripted model; it streams word by word."""
    return ScriptedModel(answer, chunk_size="word")


def answer(messages: Sequence[BaseMessage]) -> AIMessage:
    """The next message of the conversation: tool calls, or text."""
    talk = [message for message in messages if not isinstance(message, SystemMessage)]
    reply = _step(talk)
    first = not any(isinstance(message, AIMessage) and not message.tool_calls for message in talk)
    if first and not reply.tool_calls:
        return AIMessage(f"{reply.text} {NOTE}")
    return reply


@dataclass(frozen=True)
class Wish:
    """What the user's last message asks for."""

    text: str
    order: int | None
    listing: bool
    look: bool
    refund: bool
    email: bool
    amount: float | None = None


def read_wish(text: str, before: Sequence[BaseMessage]) -> Wish:
    """The wish in `text`; what it leaves out (which order, yes to what) is taken from the messages before it."""
    low = text.lower()
    said = _last_text(before) if re.match(r"\W*(yes|yep|sure|ok|please do|go ahead|do it)\b", low) else ""
    number = re.search(r"\b(\d{4,})\b", low)
    refund = bool(re.search(r"refund|money back|reimburse", low)) or OFFER_REFUND in said
    email = bool(re.search(r"e-?mail|\bmail\b|write to|tell the customer", low)) or OFFER_EMAIL in said
    return Wish(
        text=text,
        order=int(number[1]) if number else _last_order(before),
        listing=bool(re.search(r"\borders\b", low)) and not number,
        look=bool(number or re.search(r"\border\b|look .*up|what about", low)),
        refund=refund,
        email=email,
        amount=_amount(low),
    )


def _step(talk: Sequence[BaseMessage]) -> AIMessage:
    start = max((place for place, message in enumerate(talk) if isinstance(message, HumanMessage)), default=0)
    wish = read_wish(talk[start].text if talk else "", talk[:start])
    results = _results(talk[start:])
    if wish.listing:
        return AIMessage(results["list_orders"].text) if results else _call("Let me see.", ("list_orders", {}))
    if not (wish.look or wish.refund or wish.email):
        return AIMessage(_small_talk(wish.text))
    if wish.order is None:
        return AIMessage("Which order is it? " + HELP)
    return _serve(wish, results, talk)


def _serve(wish: Wish, results: dict[str, ToolMessage], talk: Sequence[BaseMessage]) -> AIMessage:
    found = results.get("look_up_order")
    if found is None:
        return _call(f"Let me look up order {wish.order}.", ("look_up_order", {"order_id": wish.order}))
    if found.status == "error":
        return AIMessage(f"I could not look up order {wish.order}: {found.text}")
    calls = []
    if wish.refund and "refund_order" not in results:
        calls.append(("refund_order", _refund(wish)))
    if wish.email and "send_email" not in results:
        calls.append(("send_email", _email(wish, found.text, talk)))
    return _call("I ask a colleague to release this.", *calls) if calls else AIMessage(_summary(results))


def _summary(results: dict[str, ToolMessage]) -> str:
    """What became of each call; an offer of what could come next."""
    acts = {name: result for name, result in results.items() if name != "look_up_order"}
    if not acts:
        return f"{results['look_up_order'].text}. {OFFER_REFUND}"
    told = [_told(name, result) for name, result in acts.items()]
    refunded = acts.get("refund_order")
    if refunded is not None and refunded.status != "error" and "send_email" not in acts:
        told.append(OFFER_EMAIL)
    return " ".join(told)


def _told(name: str, result: ToolMessage) -> str:
    what = {"refund_order": "refund", "send_email": "e-mail"}.get(name, name)
    if result.status == "error":
        return f"The {what} was not made: {result.text.rstrip('.')}."
    notice, _, text = result.text.rpartition("\n\n")  # a person's change stands in front of the result
    return f"Done{', as a colleague changed it' if notice else ''}. {text.rstrip('.')}."


def _refund(wish: Wish) -> dict[str, Any]:
    args = {"order_id": wish.order, "reason": "The customer asked for it"}
    return args if wish.amount is None else {**args, "amount": wish.amount}


def _email(wish: Wish, found: str, talk: Sequence[BaseMessage]) -> dict[str, Any]:
    """An e-mail to the address in what was found about the order."""
    customer = re.search(r": ([^:<]+) <([^>]+)>", found)
    name, address = customer.groups() if customer else ("customer", "unknown")
    told = re.search(r"\bthat (.+)", wish.text)
    refunded = wish.refund or any(call["name"] == "refund_order" for call in _calls(talk))
    news = told[1].rstrip(".") if told else "we are refunding it" if refunded else "we are looking into it"
    body = f"Dear {name},\n\nabout your order {wish.order}: {news}.\n\nKind regards,\nthe refund desk"
    return {"to": address, "subject": f"Your order {wish.order}", "body": body}


def _small_talk(text: str) -> str:
    if re.search(r"\bthank", text, re.IGNORECASE):
        return "You are welcome."
    if re.match(r"\W*(no|nope|not now)\b", text, re.IGNORECASE):
        return "All right, then I leave it."
    if re.match(r"\W*(hello|hi|hey|good (morning|day|evening))\b", text, re.IGNORECASE):
        return f"Hello! {HELP}"
    return f"I did not understand that. {HELP}"


def _call(text: str, *calls: tuple[str, dict[str, Any]]) -> AIMessage:
    # Ids must differ over the whole thread, whichever process makes them.
    tool_calls = [{"name": name, "args": args, "id": f"call_{uuid4().hex[:12]}"} for name, args in calls]
    return AIMessage(text, tool_calls=tool_calls)


def _calls(talk: Sequence[BaseMessage]) -> list[Any]:
    return [call for message in talk if isinstance(message, AIMessage) for call in message.tool_calls]


def _results(talk: Sequence[BaseMessage]) -> dict[str, ToolMessage]:
    """Results of this turn by the name of the tool, in the order of the calls."""
    by_id = {message.tool_call_id: message for message in talk if isinstance(message, ToolMessage)}
    return {call["name"]: by_id[call["id"]] for call in _calls(talk) if call["id"] in by_id}


def _last_text(talk: Sequence[BaseMessage]) -> str:
    return next((message.text for message in reversed(talk) if isinstance(message, AIMessage)), "")


def _last_order(talk: Sequence[BaseMessage]) -> int | None:
    numbers = [call["args"]["order_id"] for call in _calls(talk) if "order_id" in call["args"]]
    return int(numbers[-1]) if numbers else None


def _amount(text: str) -> float | None:
    found = re.search(r"(?:€|eur\s)\s*(\d+(?:\.\d{1,2})?)|(\d+(?:\.\d{1,2})?)\s*(?:€|euros?\b|eur\b)", text)
    return float(found[1] or found[2]) if found else None
