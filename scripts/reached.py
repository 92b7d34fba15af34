"""Is all of the package reached? What no command and no public name leads to is listed, and is a fault.

The package is read as text. It starts at the command line, at what `overlace` and `overlace.testing` list in `__all__`,
at what the README and the pages of docs/ import or name as code, and at modules run by name (`-m overlace...`).
From a function, class or constant it goes on to every name in it; from a module that is imported, to what is run then.
A method is reached where its class is and reached code has its name. So what is listed is called by tests, benchmarks
or reproductions at most: it belongs there.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
STARTS = {("overlace.cli", "main"), ("overlace", "__version__")}
LISTED = ("overlace", "overlace.testing")
"""Modules whose `__all__` is public."""
IMPORTED = re.compile(r"^(?:>>> )?from (overlace[\w.]*) import ([\w, ]+)", re.MULTILINE)
RUN = re.compile(r"-m[\", ]+(overlace[\w.]+)")
DOTTED = re.compile(r"\boverlace(?:\.\w+)+")
MEMBER = re.compile(r"\w\.(\w+)")
"""What templates of pages ask objects for."""
CODE = re.compile(r"`([^`\n]+)`")
PLAIN = ("dataclass", "contextmanager", "asynccontextmanager", "cache", "lru_cache", "runtime_checkable", "wraps")
"""Decorators that call nothing by themselves; others of foreign libraries hand a function to somebody who does."""
CALLS_NOTHING = ("ABC", "Enum", "Exception", "Generic", "IntEnum", "NamedTuple", "Protocol", "StrEnum", "TypedDict")
"""Classes of Python that call no method by a name of their own."""

Name = tuple[str, str]
"""A module and a name in it; the name is empty for what is run when the module is imported."""


@dataclass
class Module:
    """A module as text: what each name in it is, and where what it imports comes from."""

    defined: dict[str, list[ast.AST]] = field(default_factory=lambda: defaultdict(list))
    methods: dict[str, dict[str, ast.AST]] = field(default_factory=dict)
    imports: dict[str, Name] = field(default_factory=dict)
    body: list[ast.AST] = field(default_factory=list)
    loads: set[str] = field(default_factory=set)


def read_package(root: Path) -> dict[str, Module]:
    """Every module of the package by name."""
    paths = {}
    for path in sorted((root / "overlace").rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        paths[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return {name: read_module(ast.parse(path.read_text()), set(paths)) for name, path in paths.items()}


def read_module(tree: ast.Module, known: set[str]) -> Module:
    """What a module defines, imports and runs."""
    made = Module()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            made.loads |= {each.name for each in node.names}
            made.imports |= {each.asname: (each.name, "") for each in node.names if each.asname}
        elif isinstance(node, ast.ImportFrom):
            for each in node.names:
                whole = f"{node.module}.{each.name}"
                made.loads.add(whole if whole in known else str(node.module))
                made.imports[each.asname or each.name] = (
                    (whole, "") if whole in known else (str(node.module), each.name)
                )
    for node in statements(tree.body):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            made.defined[node.name].append(node)
            if isinstance(node, ast.ClassDef):
                inner = (each for each in node.body if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef))
                made.methods[node.name] = {each.name: each for each in inner}
            if is_python(node.name) or any(is_handed_over(each, made, known) for each in node.decorator_list):
                made.body.append(ast.Name(node.name))
        elif (target := constant(node)) is not None:
            made.defined[target].append(node)
        else:
            made.body.append(node)
    return made


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, those under an `if` or `try` too."""
    for node in body:
        if isinstance(node, ast.If | ast.Try):
            for each in ("body", "handlers", "orelse", "finalbody"):
                for part in getattr(node, each, []):
                    yield from statements(part.body if isinstance(part, ast.ExceptHandler) else [part])
            if isinstance(node, ast.If):
                yield ast.Expr(node.test)
        else:
            yield node


def constant(node: ast.stmt) -> str | None:
    """The name that an assignment gives to a value."""
    if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
        return node.target.id
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name):
        return node.targets[0].id
    return None


def is_handed_over(decorator: ast.expr, module: Module, known: set[str]) -> bool:
    """Whether a decorator gives the function to a library that calls it."""
    function = decorator.func if isinstance(decorator, ast.Call) else decorator
    name = function
    while isinstance(name, ast.Attribute):
        name = name.value
    if not isinstance(name, ast.Name):
        return False
    if isinstance(function, ast.Attribute):
        return function.attr not in PLAIN
    ours = name.id in module.defined or module.imports.get(name.id, ("overlace", ""))[0] in known
    return not ours and name.id not in PLAIN


def is_python(name: str) -> bool:
    """Whether Python or a notebook calls a function by this name."""
    return name.startswith("_") and name.endswith("_")


class Reach:
    """What is reached so far."""

    def __init__(self, modules: dict[str, Module]) -> None:
        self.modules = modules
        self.found: set[Name] = set()
        self.spoken: set[str] = set()  # names that reached code has
        self.waiting: dict[str, list[tuple[str, ast.AST]]] = defaultdict(list)  # methods by a name nobody has yet
        self.reached_methods: set[tuple[str, str, str]] = set()
        self.todo: list[tuple[str, ast.AST]] = []

    def add(self, name: Name) -> None:
        """One more name is reached."""
        module, what = name
        if module not in self.modules or name in self.found:
            return
        self.found.add(name)
        here = self.modules[module]
        if not what:
            self.todo += [(module, node) for node in here.body]
            for parent in {module.rpartition(".")[0], *here.loads}:
                self.add((parent, ""))
            return
        self.add((module, ""))
        if what in here.defined:
            for node in here.defined[what]:
                self.visit(module, what, node)
        elif what in here.imports:
            self.add(here.imports[what])
        elif any(what in methods for methods in here.methods.values()):
            self.speak(what)
        else:
            self.add((f"{module}.{what}", ""))

    def visit(self, module: str, what: str, node: ast.AST) -> None:
        """Go on from a definition; of a class, its methods wait until somebody has their name."""
        if not isinstance(node, ast.ClassDef):
            self.todo.append((module, node))
            return
        foreign = any(self.is_foreign(module, base) for base in node.bases)
        for part in (*node.bases, *node.keywords, *node.decorator_list):
            self.todo.append((module, part))
        for each in node.body:
            if (
                not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef)
                or foreign
                or is_python(each.name)
                or each.name in self.spoken
                or not is_plain(each)
            ):
                self.todo.append((module, each))
            else:
                self.waiting[each.name].append((module, each))

    def is_foreign(self, module: str, base: ast.expr) -> bool:
        """Whether a class inherits from one of another library, which may call methods by names of its own."""
        while isinstance(base, ast.Subscript):
            base = base.value
        if isinstance(base, ast.Attribute):
            return True
        name = base.id if isinstance(base, ast.Name) else ""
        while module in self.modules and name in self.modules[module].imports:
            module, name = self.modules[module].imports[name]
        if module not in self.modules:
            return name not in CALLS_NOTHING
        bases = [each for node in self.modules[module].defined.get(name, []) for each in getattr(node, "bases", [])]
        return any(self.is_foreign(module, each) for each in bases)

    def speak(self, name: str) -> None:
        """Reached code has a name."""
        if name not in self.spoken:
            self.spoken.add(name)
            self.todo += self.waiting.pop(name, [])

    def walk(self) -> None:
        """Go on until nothing new is reached."""
        while self.todo:
            module, tree = self.todo.pop()
            here = self.modules[module]
            for node in ast.walk(tree):
                if isinstance(node, ast.Name):
                    self.speak(node.id)
                    if node.id in here.defined or node.id in here.imports:
                        self.add((module, node.id))
                elif isinstance(node, ast.Attribute):
                    self.speak(node.attr)
                    base = here.imports.get(node.value.id) if isinstance(node.value, ast.Name) else loaded(node.value)
                    if base is not None and not base[1]:
                        self.add((base[0], node.attr))
                    elif isinstance(whole := dotted(node), str) and whole.startswith("overlace."):
                        self.add(tuple(whole.rsplit(".", 1)))  # type: ignore[arg-type]
                elif isinstance(node, ast.keyword) and node.arg:
                    self.speak(node.arg)
                elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                    self.named(module, node.value)

    def named(self, module: str, text: str) -> None:
        """A text may name a module, something in one, a method, or an annotation."""
        for run in RUN.findall(f"-m {text}"):
            self.add((run, ""))
        if text.isidentifier():
            self.speak(text)
            if text in self.modules[module].imports or text in self.modules[module].defined:
                self.add((module, text))
        path, _, last = text.rpartition(".")
        for start in ("", "overlace.", f"{module}."):
            if f"{start}{text}" in self.modules:
                self.add((f"{start}{text}", ""))
            if path and f"{start}{path}" in self.modules and last.isidentifier():
                self.add((f"{start}{path}", last))


def is_plain(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether a method is called by its name only, and given to no library by a decorator."""
    return not any(isinstance(each, ast.Call) for each in node.decorator_list)


def loaded(node: ast.expr) -> Name | None:
    """The module that a call of import_module loads."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "import_module":
        return (node.args[0].value, "") if isinstance(node.args[0], ast.Constant) else None
    return None


def dotted(node: ast.Attribute) -> str | None:
    """a.b.c as text, where that is all it is."""
    value = dotted(node.value) if isinstance(node.value, ast.Attribute) else None
    if isinstance(node.value, ast.Name):
        value = node.value.id
    return f"{value}.{node.attr}" if value else None


def starts(root: Path, modules: dict[str, Module]) -> set[Name]:
    """Where it begins."""
    found = set(STARTS)
    for module in LISTED:
        for node in modules[module].defined.get("__all__", []):
            names = ast.literal_eval(node.value)  # type: ignore[attr-defined]
            found |= {(module, name) for name in names}
    pages = [root / "README.md", *(root / "docs").glob("*.md")]
    for page in (each for each in pages if each.exists()):
        found |= named_on(page.read_text(), modules)
    for page in (*pages, root / "Makefile"):
        found |= {(module, "") for module in RUN.findall(page.read_text() if page.exists() else "")}
    return found


def named_on(text: str, modules: dict[str, Module]) -> set[Name]:
    """What a page imports, names with its module, or names as code beside a module that it imports from."""
    imported = [(module, name.strip()) for module, names in IMPORTED.findall(text) for name in names.split(",")]
    whole = [(module, name) for module, _, name in (each.rpartition(".") for each in DOTTED.findall(text))]
    beside = {module.rpartition(".")[0] for module, _ in imported} - {"overlace"}
    words = {word for code in CODE.findall(text) for word in re.findall(r"\w+", code)}
    near = []
    for name, module in modules.items():
        if name.rpartition(".")[0] in beside:
            near += [(name, word) for word in words.intersection(module.defined)]
            near += [(name, word) for word in words for methods in module.methods.values() if word in methods]
    return {*imported, *whole, *near}


def unreached(root: Path) -> list[str]:
    """What nothing leads to."""
    modules = read_package(root)
    reach = Reach(modules)
    for each in starts(root, modules):
        reach.add(each)
    for template in (root / "overlace").rglob("*.j2"):
        for word in MEMBER.findall(template.read_text()):
            reach.speak(word)
    reach.walk()
    missing = []
    for name, module in modules.items():
        if (name, "") not in reach.found:
            missing.append(name)
            continue
        missing += [f"{name}.{what}" for what in module.defined if not_found(reach, name, what)]
    idle = {id(node): (module, node) for nodes in reach.waiting.values() for module, node in nodes}
    for name, module in modules.items():
        for kind, methods in module.methods.items():
            missing += [f"{name}.{kind}.{what}" for what, node in methods.items() if id(node) in idle]
    return sorted(missing)


def not_found(reach: Reach, module: str, what: str) -> bool:
    """Whether a definition counts as not reached; names in double underscores are Python's."""
    return (module, what) not in reach.found and not what.startswith("__")


def main() -> int:
    """List what is not reached."""
    found = unreached(ROOT)
    print("\n".join(f"{each}: no command and no public name leads here" for each in found) or "all is reached")
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
