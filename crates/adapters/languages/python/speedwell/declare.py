"""Declared benchmarks with their parameters, and the cases that result from them."""

import inspect
import itertools

# Every benchmark of the file, in source order.
DECLARED = []

HOOKS = ("setup", "teardown", "before_sample", "after_sample", "only")


class BadArgument(Exception):
    """A `name=value` argument that does not fit the declared parameter."""


class Declared:
    """One benchmark: a function and the values of its parameters."""

    def __init__(self, function, name, parameters, hooks, gc):
        self.function = function
        self.name = name
        self.parameters = {key: _values(key, values) for key, values in parameters.items()}
        self.setup, self.teardown, self.before_sample, self.after_sample, self.only = hooks
        self.gc = gc
        self.is_async = inspect.iscoroutinefunction(function)
        # A function with a `bench` parameter contains the loop; any other one is the iteration.
        self.owns_loop = next(iter(inspect.signature(function).parameters), None) == "bench"
        if "concurrency" in self.parameters and not self.is_async:
            raise TypeError(f"'{name}': concurrency requires an async function")

    def cases(self, words=()):
        """Returns all allowed combinations as dictionaries, the last parameter varying fastest."""
        parameters = self.with_words(words)
        for values in itertools.product(*parameters.values()):
            case = dict(zip(parameters, values))
            if self.only is None or self.only(**case):
                yield case

    def with_words(self, words):
        """Returns the parameters, with declared values replaced by those of `name=value`
        arguments."""
        given = {}
        for word in words:
            name, _, text = word.partition("=")
            if name in self.parameters:
                given.setdefault(name, []).append(self.value(name, text))
        return {**self.parameters, **given}

    def value(self, name, text):
        """Parses `text` as a value of the parameter."""
        kind = type_name(self.parameters[name])
        try:
            if kind == "bool":
                return {"true": True, "false": False}[text]
            if kind == "int":
                return int(text) if text.lstrip("-").isdigit() else _whole(float(text))
            return float(text) if kind == "float" else text
        except (KeyError, ValueError, OverflowError):
            raise BadArgument(f"bad argument: {name}={text}") from None


def benchmark(*functions, name=None, setup=None, teardown=None, before_sample=None,
              after_sample=None, only=None, gc=False, **parameters):
    """Declares a function as a benchmark; every further keyword is a parameter with its values.

    setup(**values) is called once per process before the first iteration, and its result is
    `bench.state`; teardown(state) is called once at the end. before_sample(state) and
    after_sample(state) are called around every pass. only(**values) decides whether a combination
    is a case. gc=True keeps the garbage collector on while measuring.
    """
    hooks = (setup, teardown, before_sample, after_sample, only)
    for hook, given in zip(HOOKS, hooks):
        if given is not None and not callable(given):
            raise TypeError(f"'{hook}' must be a function: the name is reserved and cannot be a parameter")

    def declare(function):
        DECLARED.append(Declared(function, name or function.__name__, parameters, hooks, gc))
        return function

    return declare(*functions) if functions else declare


def type_name(values):
    """Returns the protocol's name for the type of a parameter."""
    if isinstance(values[0], bool):
        return "bool"
    if all(isinstance(value, int) for value in values):
        return "int"
    return "float" if isinstance(values[0], (int, float)) else "text"


def text_of(value):
    """Formats a value as other languages do."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else repr(value)


def _values(name, values):
    values = [values] if isinstance(values, (bool, int, float, str)) else list(values)
    if not values:
        raise TypeError(f"parameter '{name}' has no values")
    for value in values:
        if not isinstance(value, (bool, int, float, str)):
            raise TypeError(f"parameter '{name}' has a value of type '{type(value).__name__}': expected bool, int, float or str")
    if len({_family(value) for value in values}) > 1:
        raise TypeError(f"parameter '{name}' has values of several types")
    return values


def _family(value):
    return bool if isinstance(value, bool) else str if isinstance(value, str) else float


def _whole(number):
    if number != int(number):
        raise ValueError
    return int(number)
