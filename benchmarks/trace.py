"""What the trace costs a turn: recorded and kept, against `trace=False`, with no layer and with layers that act."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import Any

from lease import Turn, measured, on_each, ratios
from parts import Model, look

from scallion import Agent, Filter, SQLCheckpointer


def acting(number: int) -> Filter:
    """A layer that shows the model less, and says more than it did."""

    def chat(request: Any, state: Any, next: Any) -> Any:
        reply = next(request.replace(messages=request.messages[-4:]))
        message = reply.message.model_copy(update={"content": f"{reply.message.content}."})
        return reply.replace(message=message)

    return Filter(f"layer{number}", around_chat=chat)


def turns(saver: SQLCheckpointer, layers: int) -> Iterator[tuple[str, Turn]]:
    """A turn on a thread of its own, each time: without a trace and with one."""
    for name, trace in (("off", False), ("on", True)):
        stack = [acting(number) for number in range(layers)]
        agent = Agent(Model(), tools=[look], filters=stack, checkpointer=saver, trace=trace)
        numbers = count()
        yield name, lambda agent=agent, n=numbers, name=f"{name}{layers}": agent.invoke("q", thread=f"{name}-{next(n)}")


def measure(url: str, rounds: int) -> dict[str, Any]:
    """The ratios for each number of layers."""
    found: dict[str, Any] = {}
    with SQLCheckpointer(url, auto_upgrade=True) as saver:
        for layers in (0, 5):
            taken = measured(dict(turns(saver, layers)), rounds)
            found[str(layers)] = ratios(taken, "on")
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print."""
    on_each(measure, 300, arguments)


if __name__ == "__main__":
    main()
