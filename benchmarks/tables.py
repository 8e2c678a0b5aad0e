"""What each benchmark found, as tables in Markdown, with the goal beside it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


def table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


def overhead(found: Any) -> list[str]:
    """A turn, and one more layer."""
    worst, asynchronous = found["sync, worst"], found["async"]
    turn = table(
        ["a turn with one tool call, × a hand-written graph", "sync, worst of four stack depths", "async", "goal"],
        [
            ["Scallion, no filters", worst["scallion 0"], asynchronous["scallion 0"], "at most 1.15"],
            [
                "Scallion, 20 `def` filters on chat and tool",
                worst["scallion 20"],
                asynchronous["scallion 20 def"],
                "1.35",
            ],
            ["Scallion, 20 `async def` filters", "", asynchronous["scallion 20"], ""],
            ["create_agent, no middleware", worst["create_agent 0"], asynchronous["create_agent 0"], ""],
            ["create_agent, 20 middlewares", worst["create_agent 20"], asynchronous["create_agent 20"], ""],
        ],
    )
    sync_layer, async_layer = found["sync, microseconds a layer"], found["async, microseconds a layer"]
    layer = table(
        ["one more layer, microseconds per call", "Scallion", "create_agent", "goal"],
        [
            ["sync", sync_layer["scallion"], sync_layer["create_agent"], "a tenth of theirs"],
            ["async (`async def` layers)", async_layer["scallion"], async_layer["create_agent"], "a tenth of theirs"],
        ],
    )
    return [turn, layer]


def cold(found: Any) -> list[str]:
    """The start of a process."""
    head = ["cold process to resumed turn, 400 turns of history", "seconds"]
    return [table(head, [["Scallion on SQLite", found["ours"]], ["create_agent on SqliteSaver", found["theirs"]]])]


def checkpointer(found: Any) -> list[str]:
    """A conversation that grows, and many at once."""
    return [made for made in (_growth(found["growth"]), _at_once(found["at once"])) if made]


def _growth(rows: Sequence[Any]) -> str | None:
    if not rows:
        return None
    marks = list(rows[0]["times"])
    head = [
        "one conversation: saver",
        "durability",
        "messages kept as",
        *(f"turn {n}, × without a saver" for n in marks),
        f"kB on disk after {marks[-1]}",
        "× distinct data",
    ]
    cells = [
        [
            *(row[key] for key in ("saver", "durability", "channel")),
            *row["times"].values(),
            f"{row['bytes'][marks[-1]] / 1e3:,.0f}",
            row["of distinct"],
        ]
        for row in rows
    ]
    return table(head, cells)


def _at_once(rows: Sequence[Any]) -> str | None:
    head = ["threads at once, turns per second", "LangGraph's saver", "theirs", "Scallion", "ratio", "goal"]
    cells = [[row["threads"], row["theirs"], *row["turns"], row["ratio"], "at least 1.5"] for row in rows]
    return table(head, cells) if cells else None


def listing(found: Any) -> list[str]:
    """Pages of 50: ours, each with what LangGraph's cheaper way would take for as many threads; the goal is 10 ms."""
    times = found["milliseconds"]
    scale = found["threads"] / found["theirs"]
    lines = [[name, *(times[database]["ours"][name] for database in times)] for name in times["SQLite"]["ours"]]
    cheaper = [round(scale * min(times[database]["theirs"].values())) for database in times]
    lines.append([f"LangGraph: `saver.list(None)`, {found['theirs']:,} threads × {scale:g}", *cheaper])
    return [table([f"a page of 50 of {found['threads']:,} threads, 1,000 of which wait: milliseconds", *times], lines)]


def search(found: Any) -> list[str]:
    """Pages of 50 of what was found, and what the index costs; the goal is 10 ms."""
    measured = found["found"]
    names = next(iter(measured.values()))["milliseconds"]
    lines = [[name, *(one["milliseconds"][name] for one in measured.values())] for name in names]
    lines.append(["to index a new thread of four messages", *(round(one["first"], 2) for one in measured.values())])
    return [table([f"a search among {found['threads']:,} threads: milliseconds", *measured], lines)]


def lease(found: Any) -> list[str]:
    """A turn with leases and the ledger on, against one with them off, by the clock and of the processor."""
    head = ["a turn with one tool call, × the same without lease and ledger", "clock", "processor", "goal"]
    shown = {"on": "lease, and a ledger that guards another tool", "guarded": "its own tool is guarded"}
    rows = [
        [f"{database}: {told}", measured[case]["clock"], measured[case]["processor"], goal]
        for database, measured in found.items()
        for (case, told), goal in zip(shown.items(), ("at most 1.10", ""), strict=True)
    ]
    return [table(head, rows)]


def trace(found: Any) -> list[str]:
    """A turn with a trace against one without, by the number of layers that change something."""
    head = ["a turn with one tool call, × the same with `trace=False`", "clock", "processor", "goal"]
    shown = {"0": ("no layer", "at most 1.05"), "5": ("five layers that change requests and replies", "")}
    rows = [
        [f"{database}: {told}", measured[layers]["clock"], measured[layers]["processor"], goal]
        for database, measured in found.items()
        for layers, (told, goal) in shown.items()
    ]
    return [table(head, rows)]


def pauses(found: Any) -> list[str]:
    """Steps beside many open pauses."""
    head = [f"beside {found['pauses']:,} open pauses, × beside none", *found["steps"]]
    steps = next(iter(found["steps"].values()))
    return [table(head, [[step, *(one[step]["ratio"] for one in found["steps"].values())] for step in steps])]


def tool_search(found: Any) -> list[str]:
    """What is found, what is not sent, and how long it takes; nothing where the catalogues are not there."""
    if not found:
        return []
    names = [f"{name} ({tools:,} tools)" for name, tools in found["tools"].items()]
    kinds = found["found"].items()
    recall = table(
        ["tool search: share of the right tools among the first 5 / 10", *names, "no tool fits, and none is found"],
        [
            [
                kind,
                *("{:.2f} / {:.2f}".format(*one["recall"]) for one in measured["catalogues"].values()),
                measured["nothing fits"],
            ]
            for kind, measured in kinds
        ],
    )
    cost = table(
        ["tool search: schemas not sent, and milliseconds a query", *names, "seconds to build the largest"],
        [
            [
                kind,
                *(f"{one['saved']:.0%}, {one['milliseconds a query']}" for one in measured["catalogues"].values()),
                max(one["seconds to build"] for one in measured["catalogues"].values()),
            ]
            for kind, measured in kinds
        ],
    )
    return [recall, cost]


def guardrails(found: Any) -> list[str]:
    """What is found of personal data, how fast, and in a stream; nothing where the corpora are not there."""
    if not found:
        return []
    head = ["personal data: Scallion / LangChain", "rows", "places", "missed", "false hits", "rows that are wrong"]
    scores = [
        [name, one["rows"], one["places"], *("{} / {}".format(*one[what]) for what in ("missed", "false", "wrong"))]
        for name, one in found["scores"].items()
    ]
    batch = [[kind, ours, "has none" if theirs is None else theirs] for kind, (ours, theirs) in found["batch"].items()]
    stream = found["stream"]
    return [
        table(head, scores),
        table(["personal data: milliseconds a megabyte", "Scallion, found and replaced", "LangChain, found"], batch),
        table(
            ["a stream with six types redacted", "found", "goal"],
            [
                ["speed, × `model.stream()`", stream["speed"], "at least 0.5"],
                ["microseconds a piece of 1 to 8 characters", stream["microseconds"], ""],
                ["characters held back, mean / most", f"{stream['held']} / {stream['most held']}", ""],
            ],
        ),
    ]


TABLES: dict[str, Callable[[Any], list[str]]] = {
    "overhead": overhead,
    "cold": cold,
    "listing": listing,
    "search": search,
    "lease": lease,
    "trace": trace,
    "pauses": pauses,
    "checkpointer": checkpointer,
    "tool_search": tool_search,
    "guardrails": guardrails,
}
"""The benchmarks by the name of their script."""
