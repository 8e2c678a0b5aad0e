"""`validate_schema`: the final answer is JSON of a form, and comes as data."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from scallion.errors import ConfigurationError, FilterError
from scallion.filters.revision import Revision, Verdict, check_count
from scallion.filters.schema.json_schema import JSONSchema, Schema
from scallion.filters.schema.json_text import Found, NoJSON, parse, preferred, search
from scallion.filters.schema.native_output import is_offered, is_portable, response_format
from scallion.filters.schema.python_type import PythonType
from scallion.values import ChatReply, ChatRequest, Completed

Form = Schema | PythonType
ONLY_JSON = "Answer with JSON and nothing else."


def is_schema_itself(value: Any, schema: JSONSchema | None) -> bool:
    """Whether a model gave the schema in place of a value that fits it."""
    if not isinstance(value, dict) or not isinstance(schema, Mapping):
        return False
    given, wanted = value.get("properties"), schema.get("properties")
    return isinstance(given, dict) and isinstance(wanted, Mapping) and given.keys() == wanted.keys()


def read(found: Found, form: Form, most: int | None) -> tuple[list[str], Any]:
    """What is wrong with a value, and what the form makes of it."""
    if is_schema_itself(found.value, form.json_schema):
        return ["#: it is the schema itself: give a value that fits the schema"], None
    try:
        return form.read(found.value, most)
    except RecursionError:
        return ["#: it is nested too deeply"], None
    except OverflowError:  # of an integer of hundreds of digits, where a float is needed
        return ["#: it holds a number that is out of range"], None


def judge(found: Sequence[Found], form: Form, most: int | None) -> Verdict:
    """The one value that fits; or what is wrong with the longest, or that several fit."""
    readings = {id(one): read(one, form, most) for one in found}
    fitting = preferred([one for one in found if not readings[id(one)][0]])
    if (count := _different(fitting)) > 1:
        return Verdict([f"it holds {count} JSON values that fit: give one"], hint=ONLY_JSON)
    meant = fitting[0] if fitting else max(preferred(found), key=lambda one: one.length)
    errors, value = readings[id(meant)]
    text = None if errors or isinstance(form, Schema) else json.dumps(meant.value)
    return Verdict(errors, value, ONLY_JSON, text)


def _different(found: Sequence[Found]) -> int:
    return len({json.dumps(one.value, sort_keys=True) for one in found}) if len(found) > 1 else len(found)


class ValidateSchema(Revision):
    """The filter. `schema` is the JSON Schema of the answer, for a system prompt; None for a type that has none.

    Around a model call it stands innermost: what a provider can be asked for goes by the model that is called.
    """

    innermost = ("chat",)

    def __init__(
        self, form: Form, *, name: str, max_errors: int | None, code_fence: bool, native: bool | None, **options: Any
    ) -> None:
        super().__init__(name, self._read, **options)
        if max_errors is not None:
            check_count(name, "max_errors", max_errors, least=1)
        self.schema = form.json_schema
        self.load_parsed = self._load if isinstance(form, PythonType) else None
        self._form = form
        self._most = max_errors
        self._code_fence = code_fence
        self._native = native
        self._format = _format(form.json_schema, native, name)

    def around_chat(self, request: ChatRequest, state: Any, next: Callable[[ChatRequest], ChatReply]) -> ChatReply:
        """Ask the provider for the form, where it has that."""
        if self._format is not None and not request.aside and self._is_asked(request):
            request = request.replace(settings={**self._format, **request.settings})
        return super().around_chat(request, state, next)

    def _is_asked(self, request: ChatRequest) -> bool:
        return self._native or (request.model is not None and is_offered(request.model, request.tools))

    def _load(self, text: str) -> Any:
        try:
            return cast("PythonType", self._form).load(text)
        except ValueError as error:  # the type is another one than before the pause
            raise FilterError(self.name, "load_parsed", "what was read before a pause fits no more") from error

    def _read(self, result: Completed) -> Verdict:
        try:
            found = search(result.answer) if self._code_fence else [Found(parse(result.answer), len(result.answer))]
        except NoJSON as error:
            form = "" if self.schema is None else f" It fits this schema: {json.dumps(self.schema, ensure_ascii=False)}"
            return Verdict([str(error)], hint=ONLY_JSON + form)
        return judge(found, self._form, self._most)


def _format(schema: JSONSchema | None, native: bool | None, name: str) -> dict[str, Any] | None:
    if native is False or (native is None and not is_portable(schema)):
        return None
    if not isinstance(schema, Mapping):
        raise ConfigurationError(f"filter {name!r}: native=True needs a schema that is an object, not {schema!r}")
    return response_format(schema)


def validate_schema(
    schema: Any,
    max_retries: int = 2,
    *,
    max_errors: int | None = None,
    code_fence: bool = True,
    strict: bool = False,
    keep_attempts: bool = False,
    native: bool | None = None,
    registry: Any = None,
    check_formats: bool = False,
    name: str = "validate_schema",
) -> ValidateSchema:
    """Have the final answer of each turn be JSON that fits, ask the model again while it is not, and give it as data.

    `schema`: a JSON Schema (2020-12, or the draft in its `$schema`) as a mapping or bool, and `Completed.parsed` is the
    JSON data; or a pydantic model, dataclass, TypedDict, list or union of such, or a TypeAdapter, and it is of that
    type. `max_retries`: how often the model is asked again, with each error's path and what would fit (`max_errors` of
    them at most); then the last answer is given with `parsed` None, or ValidationFailed raised where `strict`.
    `code_fence=False` takes bare JSON only; otherwise it may stand in a fence or in prose, and what can mean one thing
    only is mended. `native`: ask the provider for the form too: None where the model's profile says that it can and
    the schema is one that all providers take, True always, False never. `registry`: schemas by URI, or a
    `referencing.Registry`, for references to other documents, which are never fetched. `check_formats`: `format` is
    checked, as far as jsonschema can. `keep_attempts`: the thread keeps rejected answers.
    Raises ConfigurationError for a schema that is none, or refers to what is not there.
    """
    try:
        is_schema = isinstance(schema, Mapping | bool)
        form = Schema(schema, registry=registry, check_formats=check_formats) if is_schema else PythonType(schema)
    except ConfigurationError as error:
        raise ConfigurationError(f"filter {name!r}: {error}") from error.__cause__
    return ValidateSchema(
        form,
        name=name,
        max_errors=max_errors,
        code_fence=code_fence,
        native=native,
        max_retries=max_retries,
        keep_attempts=keep_attempts,
        strict=strict,
    )
