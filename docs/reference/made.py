"""For the reference: what is made by a call when its module runs, such as `around_chat`, as what it is then."""

import inspect
from collections.abc import Iterator
from importlib import import_module
from typing import Any

import griffe


class Made(griffe.Extension):
    """Gives functions that are made by a call the signature and docstring that no reading of the source finds."""

    def on_package(self, *, pkg: griffe.Module, **_: Any) -> None:
        """Called when the package has been read."""
        for attribute in list(_made(pkg)):
            made = getattr(import_module(attribute.parent.path), attribute.name)
            if callable(made) and not isinstance(made, type):
                attribute.parent.set_member(attribute.name, _function(attribute, made))


def _made(module: griffe.Module) -> Iterator[griffe.Attribute]:
    for name, member in module.members.items():
        if member.is_alias or name.startswith("_"):
            continue
        if member.is_module:
            yield from _made(member)
        elif member.is_attribute and isinstance(member.value, griffe.ExprCall) and member.docstring is None:
            yield member


def _function(attribute: griffe.Attribute, made: Any) -> griffe.Function:
    described = made if inspect.isroutine(made) else type(made).__call__
    signature = inspect.signature(made)
    parameters = griffe.Parameters(*map(_parameter, signature.parameters.values()))
    function = griffe.Function(attribute.name, parameters=parameters, lineno=attribute.lineno)
    function.docstring = griffe.Docstring(inspect.cleandoc(described.__doc__ or ""), parent=function)
    return function


def _parameter(one: inspect.Parameter) -> griffe.Parameter:
    annotation = None if one.annotation is one.empty else str(one.annotation)
    default = None if one.default is one.empty else repr(one.default)
    kind = griffe.ParameterKind[one.kind.name.lower()]
    return griffe.Parameter(one.name, annotation=annotation, kind=kind, default=default)
