"""What people decided about one tool call, and what the gates let through: whoever runs the call has to keep to it.

A record is plain data, kept with the journal of a chain that paused:
`{"layer": who asked, "name": tool, "shown": arguments, "allowed": [...], "who": {...}, "decision": {...}, "granted":
arguments or None, "spent": bool}`, with `"rule": number` where no person decided, but a standing rule. `who` is what
the policy said about people.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

from scallion.approvals.policy import Policy, as_shown
from scallion.values import Decision, ToolRequest

Record = dict[str, Any]
RUNS = ("approve", "edit")
"""The decisions with which a call runs."""


class Gate(Protocol):
    """A filter that says which calls a person is asked about."""

    name: str

    def policy(self, request: ToolRequest) -> Policy | None:
        """How the call is approved; None where nobody is asked."""


@dataclass(frozen=True, slots=True)
class Lacking:
    """What is missing before a call may run: a decision for this layer."""

    layer: str
    policy: Policy


class Verdicts:
    """All that was decided about the call of one tool chain."""

    __slots__ = ("_passed", "given", "runs", "standing", "told")

    def __init__(self, kept: Mapping[str, Any] | None = None) -> None:
        self.given: dict[str, Record] = dict(kept["given"]) if kept else {}
        """By the place of the answer; what a rule said, by what is no such place."""
        self.runs: int = kept["runs"] if kept else 0
        """How often the tool came to an end."""
        self.standing: Mapping[str, Any] | None = None
        """The question that was answered last, until somebody takes its answer."""
        self.told = False
        """Whether the result says already that a person changed the call."""
        self._passed: dict[str, tuple[Gate, str, Any]] = {}

    def dump(self) -> dict[str, Any]:
        """Plain data, to be kept with a pause."""
        return {"given": deepcopy(self.given), "runs": self.runs}

    def note(self, number: int, shown: Mapping[str, Any], layer: str, decision: Decision) -> None:
        """A person decided the call that was shown; a refusal covers every call under its id."""
        spent = bool(self.given.get(str(number), {}).get("spent"))
        self.given[str(number)] = {**_record(shown, layer, decision, shown["allowed"]), "spent": spent}
        self.standing = None

    def rule(
        self, rule: int, call: Mapping[str, Any], layer: str, decision: Decision, allowed: Sequence[str]
    ) -> Record:
        """A standing rule decided the call, in place of a person whom the layer would have asked."""
        made = {**_record(call, layer, decision, allowed), "spent": False, "rule": rule}
        self.given[f"rule {len(self.given)}"] = made
        return made

    @property
    def numbers(self) -> Sequence[int]:
        """The places of the answers."""
        return [int(number) for number in self.given if number.isdigit()]

    def judge(self, gate: Gate, request: ToolRequest) -> Policy | None:
        """What the gate says about the call. It is asked again where something else would run."""
        policy = gate.policy(request)
        self._passed[gate.name] = (gate, request.call["name"], deepcopy(request.call["args"]))
        return policy

    def refusal(self) -> Record | None:
        """The decision with which the call does not run."""
        return next((one for one in self.given.values() if one["decision"]["type"] not in RUNS), None)

    def about(self, layer: str, request: ToolRequest) -> Record | None:
        """What was decided when this layer, or for a refusal any layer, asked about this very call.

        None where nobody asked, or the call was run by what was decided.
        """
        if (refused := self.refusal()) is not None:
            return refused
        name, args = request.call["name"], request.call["args"]
        found = None
        for one in self.given.values():  # an edit that was asked about again is followed to what was granted in the end
            if one["layer"] == layer and one["name"] == name and one["shown"] == args:
                found, args = one, one["granted"]
        return None if found is None or found["spent"] else found

    def lacking(self, request: ToolRequest) -> Lacking | None:
        """Who has to be asked before the call may run."""
        for layer in dict.fromkeys(one["layer"] for one in self.given.values()):
            latest = [one for one in self.given.values() if one["layer"] == layer][-1]
            passed = self._passed.get(layer)
            judged = passed[0].policy(request) if passed else None
            covered = not latest["spent"] and _is(request, latest["name"], latest["granted"])
            if not covered:
                return Lacking(layer, judged or as_shown(latest))
            if latest["decision"]["type"] == "edit" and judged is not None and judged.is_stricter_than(latest):
                return Lacking(layer, judged)
        return self._changed(request)

    def _changed(self, request: ToolRequest) -> Lacking | None:
        """A gate that let another call pass, and stops this one."""
        asked = {one["layer"] for one in self.given.values()}
        for layer, (gate, name, args) in self._passed.items():
            if layer not in asked and not _is(request, name, args) and (policy := gate.policy(request)) is not None:
                return Lacking(layer, policy)
        return None

    def spend(self) -> Sequence[Record]:
        """The call runs: what was approved is used up. Returns what `give_back` takes."""
        used = [one for one in self.given.values() if not one["spent"]]
        for one in used:
            one["spent"] = True
        return used

    def give_back(self, used: Sequence[Record]) -> None:
        """The run failed, or came to no end: what was approved may still be done."""
        for one in used:
            one["spent"] = False

    @property
    def has_edit(self) -> bool:
        """Whether a person changed the call."""
        return any(one["decision"]["type"] == "edit" for one in self.given.values())

    @property
    def was_spent(self) -> bool:
        """Whether the call ran by what was decided."""
        return any(one["spent"] for one in self.given.values())

    @property
    def has_run(self) -> bool:
        """Whether the call ran, or is running, by what was decided."""
        return bool(self.runs) or self.was_spent

    @property
    def is_empty(self) -> bool:
        """Whether nothing stands in the way of the call."""
        return not (self.given or self._passed or self.standing)


def _record(shown: Mapping[str, Any], layer: str, decision: Decision, allowed: Sequence[str]) -> Record:
    granted = {"approve": shown["args"], "edit": decision.args}.get(decision.type)
    return {
        "layer": layer,
        "name": shown["name"],
        "shown": deepcopy(shown["args"]),
        "decision": decision.to_json(),
        "allowed": list(allowed),
        "who": dict(shown.get("who") or {}),
        "granted": None if granted is None else deepcopy(dict(granted)),
    }


def _is(request: ToolRequest, name: str, args: Any) -> bool:
    return bool(request.call["name"] == name and request.call["args"] == args)
