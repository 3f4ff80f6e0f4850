"""Parses the text of a piece of code into its form, and compiles the loop around it.

The text of an expression or of statements becomes a part of the loop, so that an iteration costs no call; a function
is called.
"""

import ast
import dis
import linecache
import types

MOST_ARITY = {"runner": 2, "init": 0, "init_runner": 1, "done": 1}

_GIVEN, _CALL = "_speedwell_given", "_speedwell_call"

_LOOP = f"""
def loop(_speedwell_turns, {_GIVEN}, {{state}}, {{shared}}, {_CALL}=None):
    for _speedwell_turn in _speedwell_turns:
        pass
    return {_GIVEN}, {{state}}
"""

_HOOK = """
def hook({shared}):
    pass
"""

# Instructions that remain of code that the compiler has reduced to constants.
_OF_CONSTANTS = {"RESUME", "NOP", "CACHE", "LOAD_CONST", "LOAD_SMALL_INT", "POP_TOP", "RETURN_VALUE", "RETURN_CONST"}

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.GeneratorExp)


class WrongArity(Exception):
    """A function with more parameters than there are values."""


class Form:
    """A parsed text: `head` are statements, `tail` the expression whose value is the result, or None. For a
    function, `head` and `tail` define it, and `arity` is the number of its parameters."""

    def __init__(self, text, name, file=None):
        self.name = name
        self.text = text
        self.file = file or f"<{name}>"
        self.show()
        body = ast.parse(text, self.file).body
        # Compiled as a module, because inside a loop return, break and continue would be valid.
        compile(text, self.file, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if not body:
            raise SyntaxError("there is no code", (self.file, 1, 1, text))
        self.awaited = self.has_await = _awaits(body)
        self.head, self.tail = body, None
        if isinstance(body[-1], ast.Expr):
            self.head, self.tail = body[:-1], body[-1].value
        self.arity = None
        if len(body) == 1 and name != "module":
            self._read_function(body[0])

    def show(self):
        """Registers this text for stack traces. All jobs of a process use the same file names, so the job of the
        reported error is registered last."""
        lines = self.text.splitlines(True)
        linecache.cache[self.file] = (len(self.text), None, lines, self.file)

    def _read_function(self, statement):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = statement.args
            self.awaited = isinstance(statement, ast.AsyncFunctionDef)
            self.tail = ast.copy_location(ast.Name(statement.name, ast.Load()), statement)
        elif isinstance(self.tail, ast.Lambda):
            arguments = self.tail.args
        else:
            return
        self.arity = len(getattr(arguments, "posonlyargs", [])) + len(arguments.args)
        most = MOST_ARITY[self.name]
        if self.arity > most:
            raise WrongArity(f"a function for '{self.name}' takes at most {most} parameters, "
                             f"this one takes {self.arity}")

    def is_constant(self):
        """Whether the compiler has reduced an iteration to constants."""
        code = compile(self.text, self.file, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        if self.arity is not None:
            code = next(value for value in code.co_consts if isinstance(value, types.CodeType))
        return all(one.opname in _OF_CONSTANTS for one in dis.get_instructions(code))

    def function(self, scope):
        """Returns the function that the text defines."""
        module = ast.Module(list(self.head), [])
        exec(compile(module, self.file, "exec", dont_inherit=True), scope)
        return eval(compile(ast.Expression(self.tail), self.file, "eval", dont_inherit=True), scope)

    def source(self):
        """Returns the loop as text, if the interpreter supports it (3.9 and newer)."""
        return ast.unparse(self._loop_tree()) if hasattr(ast, "unparse") else ""

    def loop(self, scope):
        """Compiles `loop(turns, given, state, shared)`, possibly a coroutine function; returns (given, state)."""
        made = _made(self._loop_tree(scope), self.file, scope, "loop")
        if self.arity is not None:
            # A local variable, which has the fastest lookup.
            made.__defaults__ = (self.function(scope),)
        return made

    def _loop_tree(self, scope=()):
        names = _parameters(scope)
        tree = ast.parse(_LOOP.format(**names))
        if self.arity is None:
            body = list(self.head)
            value = self.tail
        else:
            given = ["", names["state"], f"{names['state']}, {_GIVEN}"][self.arity]
            body = []
            value = ast.parse(f"{_CALL}({given})", mode="eval").body
        if value is not None:
            # Await the value of a function, and of code without an await of its own.
            if self.awaited and (self.arity is not None or not self.has_await):
                value = ast.Await(value)
            body.append(ast.Assign([ast.Name(_GIVEN, ast.Store())], value))
        tree.body[0].body[0].body = body
        return _completed(_async(tree) if self.awaited else tree)

    def hook(self, scope):
        """Compiles `hook(shared)`, possibly a coroutine function."""
        if self.arity is not None:
            made = self.function(scope)
            return (lambda shared: made(shared)) if self.arity else (lambda shared: made())
        tree = ast.parse(_HOOK.format(**_parameters(scope)))
        tree.body[0].body = list(self.head) + [ast.Return(self.tail)]
        return _made(_completed(_async(tree) if self.awaited else tree), self.file, scope, "hook")

    def execute(self, scope):
        """Evaluates the text as a module, whose names the other texts see; may return an awaitable."""
        if self.arity is not None:
            return self.function(scope)()
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        tree = ast.Module(self.head + [ast.Assign([ast.Name(_GIVEN, ast.Store())],
                                                  self.tail or ast.Constant(None))], [])
        code = compile(_completed(tree), self.file, "exec", flags=flags, dont_inherit=True)
        started = eval(code, scope)
        if started is None:
            return scope.pop(_GIVEN)
        return _finished(started, scope)


async def _finished(started, scope):
    await started
    return scope.pop(_GIVEN)


def empty(form):
    """Returns the loop of an empty runner of the same form."""
    if form.arity is None:
        text = "pass" if form.tail is None else "None"
    else:
        text = f"lambda {['', 'a', 'a, b'][form.arity]}: None"
    made = Form(text, "runner", "<empty>")
    return made.loop({})


def _awaits(body):
    """Whether statements contain await outside of nested functions."""
    waiting = list(body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)):
            return True
        if isinstance(node, ast.comprehension) and node.is_async:
            return True
        if not isinstance(node, _SCOPES):
            waiting.extend(ast.iter_child_nodes(node))
    return False


def _parameters(scope):
    """Returns the names of the parameters. They do not hide names that the user's code has bound."""
    return {name: f"_speedwell_{name}" if name in scope else name for name in ("state", "shared")}


def _async(tree):
    plain = tree.body[0]
    fields = {name: getattr(plain, name) for name in plain._fields}
    tree.body[0] = ast.copy_location(ast.AsyncFunctionDef(**fields), plain)
    return tree


def _completed(tree):
    return ast.fix_missing_locations(tree)


def _made(tree, file, scope, name):
    namespace = {}
    exec(compile(tree, file, "exec", dont_inherit=True), scope, namespace)
    return namespace[name]
