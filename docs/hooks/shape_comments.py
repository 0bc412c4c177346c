"""Add the comments that explain arguments and attributes, and the options of dataclasses, to the API reference.

The code documents shapes and units in comments: `points: np.ndarray,  # (N, 3)`. griffe only sees names, types and docstrings.
This extension also reads the comments: those of a class's attributes become a table below its docstring, those of a function's
arguments become a list. Options (`poli.options`) are listed as functions and dataclasses have them when they run.
"""

import ast
import inspect
import io
import tokenize
from functools import lru_cache
from importlib import import_module
from pathlib import Path

import griffe

from poli.options import options_of

_FOR_TOOLS = ("noqa", "type:", "fmt:", "---")


class ShapeComments(griffe.Extension):
    def on_class(self, *, cls: griffe.Class, loader: griffe.GriffeLoader, **_: object) -> None:
        helps = _show_options(cls)
        rows = {
            attr: text
            for attr in cls.attributes.values()
            if not attr.is_alias and (text := helps.get(attr.name) or _explanation(attr))
        }
        if rows:
            _append(cls, "Attributes:\n" + "\n".join(f"    {attr.name}: {text}" for attr, text in rows.items()), loader)
        for attr in rows:
            attr.labels.add("in-table")  # for the attributes template

    def on_function(self, *, func: griffe.Function, loader: griffe.GriffeLoader, **_: object) -> None:
        if any("lists_options" in str(decorator.value) for decorator in func.decorators):
            _list_options(func)
        node = _functions(_path(func)).get(func.lineno or 0)
        lines = _explained(node, _comments(_path(func))) if node else []
        if lines:
            _append(func, "\n".join(lines), loader)


def _show_options(cls: griffe.Class) -> dict[str, str]:
    """Show the defaults of options instead of the calls that make them. Returns their help."""
    if "dataclass" not in "".join(str(decorator.value) for decorator in cls.decorators):
        return {}
    kind = getattr(import_module(cls.module.path), cls.name, None)
    options = {one.name: one for one in options_of(kind)} if hasattr(kind, "__dataclass_fields__") else {}
    for name, one in options.items():
        cls.attributes[name].value = repr(one.default)
    for parameter in cls.parameters:
        if parameter.name in options:
            parameter.default = repr(options[parameter.name].default)
    return {name: f"{one.help}{f' [{one.unit}]' if one.unit else ''}" for name, one in options.items()}


def _list_options(func: griffe.Function) -> None:
    """Replace `**options` by the options, in the signature and in the docstring."""
    real = getattr(import_module(func.module.path), func.name)
    kept = [one for one in func.parameters if one.kind is not griffe.ParameterKind.var_keyword]
    known = {one.name for one in kept}
    for name, one in inspect.signature(real).parameters.items():
        if name not in known:
            annotation = inspect.formatannotation(one.annotation)
            kind = griffe.ParameterKind.keyword_only
            kept.append(griffe.Parameter(name, annotation=annotation, kind=kind, default=repr(one.default)))
    func.parameters = griffe.Parameters(*kept)
    if func.docstring is not None:
        func.docstring.value = inspect.getdoc(real) or ""


def _append(thing: griffe.Object, text: str, loader: griffe.GriffeLoader) -> None:
    """Append text to the docstring, if there is one, or create it."""
    if thing.docstring is None:
        thing.docstring = griffe.Docstring(
            "", parent=thing, parser=loader.docstring_parser, parser_options=loader.docstring_options
        )
    thing.docstring.value = f"{thing.docstring.value.rstrip()}\n\n{text}".lstrip()


def _explanation(attr: griffe.Attribute) -> str:
    """The comments of a field: on the lines above it and at the end of its line."""
    if attr.docstring is not None or attr.lineno is None or not attr.is_public:
        return ""
    comments = _comments(_path(attr))
    return " ".join([*_above(comments, attr.lineno), comments.get(attr.endlineno or attr.lineno, ("", False))[0]]).strip()


def _path(thing: griffe.Object) -> Path:
    assert isinstance(thing.filepath, Path)
    return thing.filepath


def _explained(node: ast.FunctionDef | ast.AsyncFunctionDef, comments: dict[int, tuple[str, bool]]) -> list[str]:
    """A line of Markdown for every comment in a function's signature."""
    spec = node.args
    arguments = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs]
    head = range(node.lineno, node.body[0].lineno)
    ends = {a: _last_line(a, node) for a in arguments}
    lines = []
    for line in head:
        text = comments.get(line, ("", True))
        if not text[0] or text[1]:
            continue
        named = [a.arg for a, end in ends.items() if end == line]
        if len(named) == 1 and line != node.lineno:
            lines.append(f"- `{named[0]}`: {text[0]}")
        else:
            lines.append(f"- shapes: {text[0]}" if line == node.lineno else f"- returns {text[0]}")
    return lines


def _last_line(argument: ast.arg, node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The last line of an argument, including its default."""
    spec = node.args
    plain = [*spec.posonlyargs, *spec.args]
    defaults = dict(zip(plain[len(plain) - len(spec.defaults) :], spec.defaults, strict=True))
    defaults |= {a: d for a, d in zip(spec.kwonlyargs, spec.kw_defaults, strict=True) if d is not None}
    last = defaults.get(argument, argument)
    return last.end_lineno or last.lineno


def _above(comments: dict[int, tuple[str, bool]], line: int) -> list[str]:
    """The comment on the lines directly above a line."""
    texts: list[str] = []
    while (comment := comments.get(line - 1)) and comment[1]:
        texts.insert(0, comment[0])
        line -= 1
    return texts


@lru_cache(maxsize=256)
def _comments(path: Path) -> dict[int, tuple[str, bool]]:
    """By line: the comment's text, and whether the line holds nothing else."""
    found = {}
    for token in tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline):
        if token.type == tokenize.COMMENT:
            text = token.string.lstrip("#").strip().split("  # noqa")[0]
            if text and not text.startswith(_FOR_TOOLS):
                found[token.start[0]] = text, not token.line[: token.start[1]].strip()
    return found


@lru_cache(maxsize=256)
def _functions(path: Path) -> dict[int, ast.FunctionDef | ast.AsyncFunctionDef]:
    """Functions by the line that griffe reports: that of the first decorator, or of `def`."""
    found = {}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for line in (node.lineno, *(decorator.lineno for decorator in node.decorator_list)):
                found[line] = node
    return found
