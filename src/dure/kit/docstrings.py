"""Sentences written under a class's attributes, for help that needs no second copy of them."""

import ast
import inspect
import textwrap


def attribute_docs(kind: type) -> dict[str, str]:
    """What the string under each attribute of a class says; empty where its source is not here."""
    try:
        source = textwrap.dedent(inspect.getsource(kind))
    except (OSError, TypeError):
        return {}
    body = ast.parse(source).body[0]
    if not isinstance(body, ast.ClassDef):
        return {}
    found = {}
    for statement, following in zip(body.body, body.body[1:], strict=False):
        match statement, following:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                found[name] = " ".join(text.split())
    return found
