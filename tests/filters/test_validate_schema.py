"""`validate_schema`: the final answer is JSON of a form, and comes as data."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from datetime import date
from typing import Annotated, Any, Literal, NotRequired, Self

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from modes import Drive, Outcome, delivered
from pydantic import BaseModel, Field, SecretStr, TypeAdapter, field_validator, model_validator
from scenes import Desk, asks, call, heard
from typing_extensions import TypedDict

from scallion import (
    Agent,
    Completed,
    ConfigurationError,
    Filter,
    FilterError,
    SQLCheckpointer,
    ValidationFailed,
    around_turn,
    filters,
    pause,
)
from scallion.filters.schema.json_schema import Schema
from scallion.filters.schema.json_text import Found
from scallion.filters.schema.native_output import is_offered, is_portable
from scallion.filters.schema.python_type import PythonType
from scallion.filters.validate_schema import judge
from scallion.testing import ScriptedModel

SCHEMA = {
    "title": "Order",
    "type": "object",
    "properties": {"id": {"type": "integer"}, "state": {"type": "string", "enum": ["open", "sent"]}},
    "required": ["id", "state"],
}
GOOD = '{"id": 1, "state": "open"}'
BAD = '{"id": "one", "state": "gone"}'


def completed(outcome: Outcome) -> Completed:
    """The turn, which must have ended."""
    assert isinstance(outcome[0], Completed)
    return outcome[0]


def answered(*replies: Any, schema: Any = SCHEMA, **options: Any) -> tuple[Completed, ScriptedModel]:
    """A turn with that filter, and its model."""
    model = ScriptedModel(list(replies))
    return Agent(model, filters=[filters.validate_schema(schema, **options)]).invoke("go"), model


def test_the_answer_comes_as_data(drive: Drive) -> None:
    """Beside the text, which stays as it is."""
    agent = Agent(ScriptedModel([GOOD]), filters=[filters.validate_schema(SCHEMA)])
    done = completed(drive(agent).start("go"))
    assert (done.answer, done.parsed, done.attempts) == (GOOD, {"id": 1, "state": "open"}, 1)


def test_the_model_reads_what_would_fit_and_corrects_itself(drive: Drive, any_saver: Any) -> None:
    """Errors with path and values; the thread keeps the good answer only, and a stream takes the other one back."""
    model = ScriptedModel([BAD, GOOD])
    agent = Agent(model, filters=[filters.validate_schema(SCHEMA)], checkpointer=any_saver)
    result, events = drive(agent).start("go", thread="t")
    done = completed((result, events))
    assert (done.parsed, done.attempts, done.usage["model_calls"]) == ({"id": 1, "state": "open"}, 2, 2)
    told = heard(model.calls[1])[-1][1]
    assert "- /id: must be of type integer, not string" in told
    assert '- /state: must be one of "open", "sent"; it is "gone"' in told
    kept = agent.graph.get_state({"configurable": {"thread_id": "t"}}).values["messages"]
    assert heard(kept) == [("human", "go"), ("ai", GOOD)]
    assert not events or delivered(events) == GOOD


def test_a_model_that_does_not_write_json_is_shown_the_schema() -> None:
    """It may never have seen it."""
    _, model = answered("Order one is open.", GOOD)
    told = heard(model.calls[1])[-1][1]
    assert json.dumps(SCHEMA) in told
    assert "it is not JSON: Expecting value at line 1, column 1" in told


def test_after_the_retries_the_last_answer_is_given_without_data() -> None:
    """Or an error with what is wrong and the result."""
    done, model = answered(BAD, BAD, BAD)
    assert (done.answer, done.parsed, len(model.calls)) == (BAD, None, 3)
    with pytest.raises(ValidationFailed) as failure:
        answered(BAD, BAD, max_retries=1, strict=True)
    assert [line.split(":")[0] for line in failure.value.errors] == ["/id", "/state"]
    assert failure.value.result.answer == BAD


def test_as_many_errors_are_told_as_asked_for() -> None:
    """The first ones."""
    _, model = answered(BAD, GOOD, max_errors=1)
    told = heard(model.calls[1])[-1][1]
    assert "/id" in told
    assert "/state" not in told


FENCED = f"```json\n{GOOD}\n```"


@pytest.mark.parametrize("text", [FENCED, f"Here:\n{GOOD}\nDone.", f"\ufeff{GOOD}", GOOD.replace("}", ",}")])
def test_json_is_found_where_it_stands(text: str) -> None:
    """In a fence, in prose, with a small mistake."""
    assert answered(text)[0].parsed == {"id": 1, "state": "open"}


@pytest.mark.parametrize(("text", "attempts"), [(GOOD, 1), (f" {GOOD}\n", 1), (FENCED, 2), (f"Here: {GOOD}", 2)])
def test_only_bare_json_where_asked_for(text: str, attempts: int) -> None:
    """`code_fence=False`."""
    assert answered(text, GOOD, code_fence=False)[0].attempts == attempts


def test_valid_json_that_holds_a_fence_is_valid() -> None:
    """Defect 22: the fence is in a string."""
    value = {"code": "```json\n{}\n```"}
    for code_fence in (True, False):
        done, _ = answered(json.dumps(value), schema={"required": ["code"]}, code_fence=code_fence)
        assert (done.parsed, done.attempts) == (value, 1)


def test_the_one_that_fits_is_taken() -> None:
    """Of several values in a text, whatever is nearer to its start."""
    text = f'Not ```json\n{{"id": 0}}\n``` and not [1], but {GOOD}.'
    assert answered(text)[0].parsed == {"id": 1, "state": "open"}


def test_two_that_fit_are_told_apart_by_the_model() -> None:
    """None of them is guessed; the same one twice is one."""
    other = GOOD.replace("1", "2")
    done, model = answered(f"{GOOD} or {other}", other)
    assert (done.parsed["id"], done.attempts) == (2, 2)
    assert "2 JSON values that fit: give one" in heard(model.calls[1])[-1][1]
    assert answered(f"{GOOD}, that is {GOOD}")[0].attempts == 1


def test_a_model_that_gives_the_schema_itself_is_told_so() -> None:
    """It fits a schema that requires nothing."""
    schema = {"type": "object", "properties": {"a": {"type": "integer"}}}
    done, model = answered(json.dumps(schema), '{"a": 1}', schema=schema)
    assert (done.parsed, done.attempts) == ({"a": 1}, 2)
    assert "it is the schema itself" in heard(model.calls[1])[-1][1]


@pytest.mark.parametrize("answer", ["null", "false", "0", '""', "[]"])
def test_data_that_is_nothing_is_data(answer: str) -> None:
    """Not taken for an answer that failed."""
    done, _ = answered(answer, schema=True, strict=True)
    assert (done.parsed, done.attempts) == (json.loads(answer), 1)


def test_refusals_are_not_asked_again() -> None:
    """Defect 23, strict or not."""
    refusal = AIMessage("I will not.", response_metadata={"finish_reason": "content_filter"})
    done, model = answered(refusal, strict=True)
    assert (done.answer, done.parsed, len(model.calls)) == ("I will not.", None, 1)


def test_a_tool_call_beside_an_invalid_answer_runs(drive: Drive) -> None:
    """The loop goes on first: what is judged is the end."""
    desk = Desk()
    model = ScriptedModel([asks(call("refund", order=1), text="{not json"), GOOD])
    agent = Agent(model, tools=desk.tools, filters=[filters.validate_schema(SCHEMA)])
    done = completed(drive(agent).start("go"))
    assert (desk.ran, done.parsed["id"], done.attempts) == (["refund 1"], 1, 1)


class Cat(BaseModel):
    """One of two animals."""

    kind: Literal["cat"]
    lives: int = Field(ge=1, le=9)


class Dog(BaseModel):
    """The other one, with a name of its own in JSON."""

    kind: Literal["dog"]
    born_on: date = Field(alias="bornOn")


class Row(TypedDict):
    """A row."""

    name: str
    size: NotRequired[int]


@dataclasses.dataclass
class Point:
    """A point."""

    x: float
    y: float = 0.0


Animal = Annotated[Cat | Dog, Field(discriminator="kind")]

TYPES: dict[str, tuple[Any, str, Any]] = {
    "a model": (Cat, '{"kind": "cat", "lives": 9}', Cat(kind="cat", lives=9)),
    "aliases": (Dog, '{"kind": "dog", "bornOn": "2020-02-29"}', Dog(kind="dog", bornOn=date(2020, 2, 29))),
    "a union with a tag": (Animal, '{"kind": "cat", "lives": 9}', Cat(kind="cat", lives=9)),
    "a list": (list[Cat], '[{"kind": "cat", "lives": 9}]', [Cat(kind="cat", lives=9)]),
    "a TypedDict": (Row, '{"name": "a"}', {"name": "a"}),
    "a dataclass": (Point, '{"x": 1}', Point(1.0)),
    "a TypeAdapter": (TypeAdapter(dict[str, date]), '{"a": "2020-02-29"}', {"a": date(2020, 2, 29)}),
    "a scalar": (int | None, "null", None),
}


@pytest.mark.parametrize(("kind", "text", "value"), TYPES.values(), ids=TYPES)
def test_types_of_python(kind: Any, text: str, value: Any) -> None:
    """What is parsed is of the type."""
    done, _ = answered(text, schema=kind, strict=True)
    assert done.parsed == value
    assert type(done.parsed) is type(value)


@pytest.mark.parametrize(
    ("kind", "text", "line"),
    [
        (Cat, '{"kind": "cat"}', "/lives: Field required"),
        (Cat, '{"kind": "cat", "lives": 10}', "/lives: Input should be less than or equal to 9; it is 10"),
        (Cat, '{"kind": "cow", "lives": 1}', "/kind: Input should be 'cat'; it is \"cow\""),
        (Dog, '{"kind": "dog", "born_on": "2020-02-29"}', "/bornOn: Field required"),
        (list[Cat], '[{"kind": "cat", "lives": 1}, {"kind": "cat"}]', "/1/lives: Field required"),
        (Animal, '{"kind": "cow"}', "expected tags: 'cat', 'dog'"),
    ],
)
def test_errors_of_types_say_what_would_fit(kind: Any, text: str, line: str) -> None:
    """With the path in JSON: aliases, and the places in lists."""
    with pytest.raises(ValidationFailed) as failure:
        answered(text, schema=kind, max_retries=0, strict=True)
    assert line in failure.value.errors[0]


def test_a_validator_of_the_model_has_its_say() -> None:
    """In its own words."""

    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def is_even(cls, n: int) -> int:
            if n % 2:
                raise ValueError("it has to be even")
            return n

    done, model = answered('{"n": 1}', '{"n": 2}', schema=Even)
    assert done.parsed == Even(n=2)
    assert "/n: Value error, it has to be even; it is 1" in heard(model.calls[1])[-1][1]


def test_a_validator_of_the_whole_model_has_its_say_too() -> None:
    """Also where what it complains of is no JSON any more."""

    class Span(BaseModel):
        begin: date
        end: date

        @model_validator(mode="after")
        def is_a_span(self) -> Self:
            if self.end < self.begin:
                raise ValueError("it ends before it begins")
            return self

    class Trip(BaseModel):
        span: Span

    done, model = answered(
        '{"span": {"begin": "2026-02-01", "end": "2026-01-01"}}',
        '{"span": {"begin": "2026-01-01", "end": "2026-02-01"}}',
        schema=Trip,
    )
    assert done.parsed.span.end == date(2026, 2, 1)
    assert "/span: Value error, it ends before it begins" in heard(model.calls[1])[-1][1]


def test_an_answer_that_is_nested_too_deeply_for_a_type() -> None:
    """It is not valid, and crashes nothing."""

    class Node(BaseModel):
        inner: Node | None = None

    done, _ = answered('{"inner":' * 600 + "null" + "}" * 600, '{"inner": null}', schema=Node)
    assert (done.parsed, done.attempts) == (Node(), 2)


@pytest.mark.parametrize("kind", ["aliases", "a list", "a scalar"])
def test_what_was_parsed_survives_a_pause_of_an_outer_filter(drive: Drive, sql: SQLCheckpointer, kind: str) -> None:
    """It is kept as JSON, and is of its type again in the process that resumes."""
    schema, text, value = TYPES[kind]
    seen = []

    @around_turn
    def release(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        pause("Send it?", allowed=("approve",))
        seen.append(result.parsed)
        return result

    def agent(*replies: str) -> Agent:
        stack = [release, filters.validate_schema(schema)]
        return Agent(ScriptedModel(list(replies)), filters=stack, checkpointer=sql)

    drive(agent(text)).start("go", thread="t")
    done = completed(drive(agent()).resume("t", {"type": "approve"}))
    assert [done.parsed, *seen] == [value, value]
    assert type(done.parsed) is type(value)


class Login(BaseModel):
    """Written, it hides what it holds."""

    key: SecretStr


class Partly(BaseModel):
    """Written, it leaves a field out."""

    a: int
    hidden: str = Field("none", exclude=True)


class Renamed(BaseModel):
    """Written, it has another name than where it is read."""

    a: int = Field(validation_alias="alpha", serialization_alias="omega")


LOSSY = {Login: '{"key": "hunter2"}', Partly: '{"a": 1, "hidden": "kept"}', Renamed: '{"alpha": 1}'}


def held_twice(request: Any, state: Any, next: Any) -> Any:
    result = next(request)
    for question in ("Send it?", "Sure?"):
        pause(question, allowed=("approve",))
    return result


@pytest.mark.parametrize("kind", LOSSY, ids=lambda kind: str(kind.__name__))
@pytest.mark.parametrize("checked", [False, True])
def test_after_a_pause_a_value_is_made_of_the_json_that_was_read(
    drive: Drive, sql: SQLCheckpointer, kind: Any, checked: bool
) -> None:
    """And not of what pydantic writes of the value, where that is something else."""

    def same(request: Any, state: Any, next: Any) -> Any:
        result = next(request)
        return result.replace(parsed=result.parsed)

    between = [filters.validate_answer(lambda answer: True), Filter("same", around_turn=same)] if checked else []
    stack = [Filter("hold", around_turn=held_twice), *between, filters.validate_schema(kind)]

    def agent(*replies: str) -> Agent:
        return Agent(ScriptedModel(list(replies)), filters=stack, checkpointer=sql)

    drive(agent(LOSSY[kind])).start("go", thread="t")
    drive(agent()).resume("t", {"type": "approve"})
    done = completed(drive(agent()).resume("t", {"type": "approve"}))
    assert done.parsed == kind.model_validate_json(LOSSY[kind])


def test_a_value_that_a_filter_outside_put_there_is_kept_over_a_pause(drive: Drive, sql: SQLCheckpointer) -> None:
    """It has no JSON that was read: what pydantic writes of it is kept."""

    def other(request: Any, state: Any, next: Any) -> Any:
        return next(request).replace(parsed=Partly(a=2))

    hooks = [Filter("hold", around_turn=held_twice), Filter("other", around_turn=other)]
    stack = [*hooks, filters.validate_schema(Partly)]
    agent = Agent(ScriptedModel(['{"a": 1}']), filters=stack, checkpointer=sql)
    drive(agent).start("go", thread="t")
    drive(agent).resume("t", {"type": "approve"})
    assert completed(drive(agent).resume("t", {"type": "approve"})).parsed == Partly(a=2)


def test_a_type_that_changed_during_a_pause_is_told_as_what_it_is(sql: SQLCheckpointer) -> None:
    """It is the fault of the filter that reads, not of the one that paused."""

    def agent(kind: Any, *replies: str) -> Agent:
        stack = [Filter("hold", around_turn=held_twice), filters.validate_schema(kind)]
        return Agent(ScriptedModel(list(replies)), filters=stack, checkpointer=sql)

    agent(Partly, '{"a": 1}').invoke("go", thread="t")
    with pytest.raises(FilterError, match="'validate_schema' failed in load_parsed"):
        agent(Login).resume("t", {"type": "approve"})


def test_a_number_that_cannot_be_computed_with_is_told() -> None:
    done, model = answered("1" + "0" * 400, "1", schema={"type": "number", "multipleOf": 0.01})
    assert (done.parsed, done.attempts) == (1, 2)
    assert "out of range" in str(model.calls[1][-1].text)


@pytest.mark.parametrize("form", [PythonType(list), Schema({"items": {"$ref": "#"}}), Schema({"$ref": "#"})])
def test_what_is_nested_too_deeply_is_told(form: Any) -> None:
    """What could just be read may be too deep for what comes then."""
    nested: list[Any] = []
    for _ in range(5000):
        nested = [nested]
    assert judge([Found(nested, 1)], form, None).errors == ["#: it is nested too deeply"]


def test_a_check_outside_keeps_what_was_parsed_inside(drive: Drive) -> None:
    """And sees it."""

    def check(answer: str, result: Completed) -> str | None:
        return None if result.parsed["id"] == 2 else "take the second order"

    stack = [filters.validate_answer(check), filters.validate_schema(SCHEMA)]
    done = completed(drive(Agent(ScriptedModel([GOOD, GOOD.replace("1", "2")]), filters=stack)).start("go"))
    assert done.parsed == {"id": 2, "state": "open"}


REFUSED: dict[str, tuple[Callable[[], Any], str]] = {
    "no schema": (lambda: filters.validate_schema({"type": "int"}, name="mine"), "schema is not valid"),
    "a reference": (lambda: filters.validate_schema({"$ref": "a.json"}, name="mine"), "nothing is fetched"),
    "no type": (lambda: filters.validate_schema("Order", name="mine"), "a JSON Schema or a type"),
    "nothing": (lambda: filters.validate_schema(None, name="mine"), "a JSON Schema or a type"),
    "a value": (lambda: filters.validate_schema([1], name="mine"), "pydantic cannot make a type"),
    "a dialect": (lambda: filters.validate_schema({"$schema": "http://nope/x"}, name="mine"), "dialect"),
    "no dialect": (lambda: filters.validate_schema({"$schema": ["x"]}, name="mine"), "$schema"),
    "keys": (lambda: filters.validate_schema({"properties": {1: True}}, name="mine"), "JSON data"),
    "a registry": (lambda: filters.validate_schema(SCHEMA, registry={"u": 3}, name="mine"), "'u' in registry"),
    "no errors": (lambda: filters.validate_schema(SCHEMA, max_errors=0, name="mine"), "max_errors"),
    "retries": (lambda: filters.validate_schema(SCHEMA, -1, name="mine"), "max_retries"),
    "native": (lambda: filters.validate_schema(True, native=True, name="mine"), "native=True"),
}


@pytest.mark.parametrize(("build", "told"), REFUSED.values(), ids=REFUSED)
def test_what_cannot_work_fails_where_it_is_built(build: Callable[[], Any], told: str) -> None:
    """With the name of the filter."""
    with pytest.raises(ConfigurationError, match="'mine'") as failure:
        build()
    assert told in str(failure.value)


def asked_for(filter: Any, tools: Any = (), **fields: Any) -> list[bool]:
    """In which calls of the model a form was asked for."""
    model = ScriptedModel([asks(call("refund", order=1)) if tools else GOOD, GOOD], **fields)
    Agent(model, tools=tools, filters=[filter], checkpointer=InMemorySaver()).invoke("go", thread="t")
    return ["response_format" in one for one in model.settings]


OFFERS = {"profile": {"structured_output": True}}


def test_the_provider_is_asked_for_the_form_where_it_can() -> None:
    """By the profile of its model; with tools in every call; never where it is switched off."""
    assert asked_for(filters.validate_schema(SCHEMA)) == [False]
    assert asked_for(filters.validate_schema(SCHEMA), **OFFERS) == [True]
    assert asked_for(filters.validate_schema(SCHEMA), Desk().tools, **OFFERS) == [True, True]
    assert asked_for(filters.validate_schema(SCHEMA, native=False), **OFFERS) == [False]
    assert asked_for(filters.validate_schema(SCHEMA, native=True)) == [True]


def test_each_model_is_asked_in_its_own_way() -> None:
    """One that takes the place of another may have no form, wherever the filters stand."""
    first, second = ScriptedModel([TimeoutError("slow")], **OFFERS), ScriptedModel([GOOD])
    stack = [filters.validate_schema(SCHEMA), filters.fallback(second)]
    assert Agent(first, filters=stack).invoke("go").parsed == {"id": 1, "state": "open"}
    assert ["response_format" in one.settings[0] for one in (first, second)] == [True, False]


def test_what_the_settings_say_already_stays() -> None:
    """Another filter may have asked for something else."""

    class Asking(filters.Filter):
        name = "asking"

        def around_chat(self, request: Any, state: Any, next: Any) -> Any:
            return next(request.replace(settings={"response_format": {"type": "json_object"}}))

    model = ScriptedModel([GOOD], **OFFERS)
    Agent(model, filters=[Asking(), filters.validate_schema(SCHEMA)]).invoke("go")
    assert model.settings[0]["response_format"] == {"type": "json_object"}


PORTABLE: dict[str, tuple[Any, bool]] = {
    "an object": (SCHEMA, True),
    "a model": (Cat.model_json_schema(), True),
    "nested models": (TypeAdapter(dict[str, Cat]).json_schema(), False),
    "a root that is a list": ({"type": "array", "items": SCHEMA}, False),
    "a root that is a union": (TypeAdapter(Animal).json_schema(), False),
    "free names": ({"type": "object", "additionalProperties": {"type": "integer"}}, False),
    "free names inside": ({**SCHEMA, "properties": {"more": {"type": "object"}}}, False),
    "conditions": ({**SCHEMA, "if": {}, "then": {}}, False),
    "a list of kinds": ({**SCHEMA, "properties": {"a": {"type": ["string", "null"]}}}, False),
    "anything": ({**SCHEMA, "properties": {"a": {}}}, False),
    "a choice without its type": ({**SCHEMA, "properties": {"a": {"enum": ["b"]}}}, False),
    "true": (True, False),
}


@pytest.mark.parametrize(("schema", "portable"), PORTABLE.values(), ids=PORTABLE)
def test_which_schemas_every_provider_takes(schema: Any, portable: bool) -> None:
    """The others are checked here only, unless asked for by hand."""
    assert is_portable(schema) is portable


def test_an_older_gemini_does_one_or_the_other() -> None:
    """As LangChain has it: tools or a form."""
    for name, both in (("gemini-2.5-pro", False), ("gemini-3-pro", True)):
        model = ScriptedModel([], **OFFERS)
        object.__setattr__(model, "model_name", name)
        assert is_offered(model, Desk().tools) is both
        assert is_offered(model, ())


def test_langchain_does_not_check_a_schema_that_is_a_mapping() -> None:
    """Its agents give what the model wrote."""
    agents = pytest.importorskip("langchain.agents")
    model = ScriptedModel([BAD], **OFFERS)
    state = agents.create_agent(model, response_format=SCHEMA).invoke({"messages": [("user", "go")]})
    assert state["structured_response"] == {"id": "one", "state": "gone"}
    assert answered(BAD, GOOD)[0].parsed == {"id": 1, "state": "open"}
