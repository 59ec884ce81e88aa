"""Reads the Python package as syntax trees: modules, public names and signatures. Imports nothing."""
import ast
import functools
import re

PROGRAMS = ("master", "perf")  # modules that are programs, whose own description is enough


class Module:
    """A module as a syntax tree."""

    def __init__(self, path):
        self.path = path
        source = path.read_text(encoding="utf-8")
        self.lines = source.encode().split(b"\n")
        self.tree = ast.parse(source)
        for node in ast.walk(self.tree):
            node.where = self
        self.definitions = {
            node.name: node for node in self.tree.body if isinstance(node, (ast.ClassDef, ast.FunctionDef))
        }

    def all(self):
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == "__all__":
                return ast.literal_eval(node.value)
        return [name for name in self.definitions if not name.startswith("_")]

    def source(self, node):
        """Returns the source of a node on one line. The output of ast.unparse would differ between versions of Python.
        """
        lines = self.lines[node.lineno - 1 : node.end_lineno]
        lines[-1] = lines[-1][: node.end_col_offset]
        lines[0] = lines[0][node.col_offset :]
        return " ".join(b" ".join(lines).decode().split())

    def value_of(self, name):
        """Returns the source of the value assigned to a name, in this module or in the one from which it is imported.
        """
        for node in self.tree.body:
            if isinstance(node, ast.Assign) and getattr(node.targets[0], "id", "") == name:
                return written_as(node.value)
        beside = self.origins.get(name)
        return module_at(beside).value_of(name) if beside else None

    def definition(self, name):
        """Returns the class or function with this name, even if it is imported from another module of the package."""
        beside = self.origins.get(name)
        return self.definitions.get(name) or (beside and module_at(beside).definition(name))

    @functools.cached_property
    def origins(self):
        """Maps each name that is imported from a module of the package to that module's file."""
        found = {}
        for node in self.tree.body:
            if isinstance(node, ast.ImportFrom) and node.level > 0 and node.module:
                file = self.path.parents[node.level - 1].joinpath(*node.module.split(".")).with_suffix(".py")
                found.update({alias.name: file for alias in node.names if file.exists()})
        return found


@functools.lru_cache(maxsize=None)
def module_at(path):
    return Module(path)


class Public:
    """A public class or function, and the module that defines it."""

    def __init__(self, name, prefix, node, path):
        self.name, self.full, self.node, self.path = name, prefix + name, node, path

    @property
    def anchor(self):
        return "#" + re.sub(r"[^\w]", "", self.full.lower())


def public_modules(package):
    """Returns the names of the parts of a package: packages, then modules, and programs last."""
    packages = sorted(path.parent.name for path in package.glob("[!_]*/__init__.py"))
    modules = sorted(path.stem for path in package.glob("[!_]*.py"))
    return packages + sorted(modules, key=PROGRAMS.__contains__)


def public_names(folder, prefix):
    """Returns the module of a package or module, whose path is `folder`, and its public names in the order of __all__.
    """
    initial = module_at(folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py"))
    found = []
    for name in initial.all():
        node, path = initial.definitions.get(name), initial.path
        if node is None and name in initial.origins:
            path = initial.origins[name]
            node = module_at(path).definitions.get(name)
        if node is not None:
            found.append(Public(name, prefix, node, path))
    return initial, found


def written_as(node):
    """Returns the source of a node, or the value if it is a private name."""
    text = node.where.source(node)
    text = text.replace("( ", "(").replace(", )", ")").replace("[ ", "[").replace(" ]", "]")
    if isinstance(node, ast.Name) and re.fullmatch(r"[A-Z_]+", text):
        return node.where.value_of(text) or text
    for module, name in re.findall(r"\b(_\w+)\.(\w+)", text):
        file = node.where.path.parent / f"{module}.py"
        value = module_at(file).value_of(name) if file.exists() else None
        text = text.replace(f"{module}.{name}", value or name)
    return text


def description_of(node):
    """Returns the class whose fields are the parameters of a class's constructor, or of a method with @takes(the
    class)."""
    if isinstance(node, ast.ClassDef):
        return node if "described" in decorators(node) or settings_bases(node) else None
    for one in node.decorator_list:
        if isinstance(one, ast.Call) and one.func.id == "takes":
            return node.where.definition(one.args[0].id)
    return None


def public_bases(node):
    """Yields the names of the public base classes. A private base that is described is replaced by its own bases."""
    for base in node.bases:
        name = written_as(base)
        above = node.where.definition(name) if isinstance(base, ast.Name) else None
        if above is not None and settings_bases(above):
            continue
        if not name.startswith("_"):
            yield name
        elif above is not None and description_of(above):
            yield from public_bases(above)


def described_bases(node):
    """Returns the described classes, from the topmost base to the class itself."""
    above = [node.where.definition(base.id) for base in node.bases if isinstance(base, ast.Name)]
    return [one for base in above if base for one in described_bases(base)] + [node]


def described_fields(node):
    """Returns the positional fields of a described class, and the other fields, each with its default."""
    found, settings = {}, settings_bases(node)
    for kind in settings or described_bases(node):
        for one in kind.body:
            if isinstance(one, ast.AnnAssign):
                found.setdefault(one.target.id, one)
    order = list(found) if settings else ast.literal_eval(found.pop("_ORDER").value)
    fields = [one for name, one in found.items() if not name.startswith("_")]
    positional, named = [], []
    for field in fields:
        specifier = field.value.func.id if isinstance(field.value, ast.Call) else None
        default = field.value
        if specifier in ("argument", "position", "setting"):
            default = next((one.value for one in field.value.keywords if one.arg == "default"), None)
        (positional if specifier in ("argument", "position") else named).append((field, default))
    if settings:
        places = [one.target.id for kind in settings[::-1] for one in kind.body if isinstance(one, ast.AnnAssign)]
        positional.sort(key=lambda one: places.index(one[0].target.id))
    return positional, sorted(named, key=lambda one: order.index(one[0].target.id))


def settings_bases(node):
    """Returns the class and its bases below Declared in Python's method resolution order. Returns an empty result for a
    class that does not declare settings."""
    known = {}

    def copy_of(one):
        """Creates a class with the same bases, so that Python computes the order."""
        above = [one.where.definition(base.id) for base in one.bases if isinstance(base, ast.Name)]
        key = (one.where.path, one.name)
        if key not in known:
            known[key] = type(one.name, tuple(copy_of(base) for base in above if base) or (object,), {"node": one})
        return known[key]

    kinds = [kind.node for kind in copy_of(node).__mro__[:-1]]
    return kinds[:-1] if kinds[-1].name == "Declared" else []


def described_parts(node):
    positional, named = described_fields(node)
    parts = [field_text(*one) for one in positional]
    return parts + (["*"] if named else []) + [field_text(*one) for one in named]


def field_text(field, default):
    text = f"{field.target.id}: {written_as(field.annotation)}"
    return text if default is None else f"{text} = {written_as(default)}"


def signature(node, name, skip_self):
    """Returns the signature as one line, or as one line for each argument."""
    arguments = node.args
    returns = f" -> {written_as(node.returns)}" if node.returns and name != "__init__" else ""
    description = description_of(node)
    if description:
        return described_parts(description), returns
    parts = []
    positional = arguments.posonlyargs + arguments.args
    defaults = [None] * (len(positional) - len(arguments.defaults)) + list(arguments.defaults)
    for argument, default in list(zip(positional, defaults))[1 if skip_self else 0 :]:
        parts.append(parameter_text(argument, default))
    if arguments.vararg:
        parts.append("*" + arguments.vararg.arg)
    elif arguments.kwonlyargs:
        parts.append("*")
    parts += [parameter_text(one, default) for one, default in zip(arguments.kwonlyargs, arguments.kw_defaults)]
    return parts, returns


def parameter_text(argument, default):
    text = argument.arg + (f": {written_as(argument.annotation)}" if argument.annotation else "")
    if default is None:
        return text
    return f"{text} = {written_as(default)}" if argument.annotation else f"{text}={written_as(default)}"


def written(name, parts, returns):
    one = f"{name}({', '.join(parts)}){returns}"
    if len(one) <= 100:
        return [one]
    return [f"{name}(", *(f"    {part}," for part in parts), f"){returns}"]


def decorators(node):
    return {written_as(one).partition("(")[0] for one in node.decorator_list}


def parameter_names(node):
    description = description_of(node)
    if description:
        return {field.target.id for fields in described_fields(description) for field, _ in fields}
    arguments = node.args
    return {one.arg for one in arguments.posonlyargs + arguments.args + arguments.kwonlyargs}
