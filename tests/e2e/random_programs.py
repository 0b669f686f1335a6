"""Random programs of the query language, and what they give: an evaluation in Python over the events of `etwagent dump`, which shares nothing with
proto/lang. A program has up to three clauses with conditions, variables, maps, `if`, arithmetic with divisions by zero and fields that some events
lack, results read in conditions, and all functions whose result is exact. Each node knows its range, so that no value leaves 62 bits.
"""
import collections
import json
import random

import test_watch

LIMIT, VARIABLE = 1 << 62, 1 << 40  # of values; of what variables hold
INCREMENT = 1 << 20                 # of one +=


class Skip(Exception):
    """The statement at hand cannot go on."""


class Node:
    def __init__(self, text, low, high, value):
        self.text, self.low, self.high, self.value = text, low, high, value


def constant(n):
    return Node(str(n), n, n, lambda at: n)


def field(name, low, high):
    def value(at):
        try:
            return test_watch.number(at.event["fields"][name])
        except KeyError:
            raise Skip from None
    if low < -VARIABLE or high > VARIABLE:
        return Node(f"(event.{name} & 65535)", 0, 65535, lambda at: value(at) & 65535)
    return Node(f"event.{name}", low, high, value)


class State:
    def __init__(self):
        self.variables = collections.defaultdict(int)
        self.results = collections.defaultdict(lambda: collections.defaultdict(list))
        self.event, self.this = None, {}


class Generator:
    def __init__(self, dice, classes, number):
        self.dice, self.classes, self.number = dice, classes, number
        self.globals = [f"g{number}_{i}" for i in range(dice.randrange(1, 3))]
        self.map = f"m{number}"
        self.assigned, self.has_map, self.this, self.counts, self.aggregations = set(), False, set(), {}, 0
        self.fields = {}

    def variable(self, name):
        return Node(name, -VARIABLE, VARIABLE, lambda at: at.variables[name])

    def leaf(self):
        dice = self.dice
        kind = dice.randrange(8)
        if kind < 4 and self.fields:
            name = dice.choice(list(self.fields))
            return field(name, *self.fields[name])
        if kind == 4 and self.assigned:
            return self.variable(dice.choice(sorted(self.assigned)))
        if kind == 5:
            return Node("cpu", 0, 4096, lambda at: at.event["cpu"])
        if kind == 6 and self.counts:
            name = dice.choice(sorted(self.counts))
            return Node(name, 0, VARIABLE, lambda at: len(at.results[name][()]))
        if kind == 7 and self.this:
            name = dice.choice(sorted(self.this))
            return Node(f"this.{name}", -VARIABLE, VARIABLE, lambda at: at.this.get(name, 0))
        return constant(dice.choice([0, 1, 2, 3, 5, 7, 16, 100, 255, 4096]))

    def expression(self, depth=0):
        dice = self.dice
        if depth > 2 or dice.random() < 0.3:
            return self.leaf()
        a, b = self.expression(depth + 1), self.expression(depth + 1)
        op = dice.choice(["+", "-", "*", "/", "%", "&", "|", "^", "<<", ">>", "<", "<=", ">", ">=", "==", "!=", "&&", "||", "!", "neg", "?"])
        if op in ("+", "-", "*"):
            work = {"+": lambda x, y: x + y, "-": lambda x, y: x - y, "*": lambda x, y: x * y}[op]
            ends = [work(x, y) for x in (a.low, a.high) for y in (b.low, b.high)]
            if -LIMIT < min(ends) and max(ends) < LIMIT:
                return Node(f"({a.text} {op} {b.text})", min(ends), max(ends), lambda at: work(a.value(at), b.value(at)))
        if op in ("/", "%"):
            def divide(at):
                x, y = a.value(at), b.value(at)
                if not y:
                    raise Skip
                quotient = abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)
                return quotient if op == "/" else x - quotient * y
            most = max(abs(a.low), abs(a.high))
            return Node(f"({a.text} {op} {b.text})", -most, most, divide)
        if op in ("&", "|", "^") and a.low >= 0 and b.low >= 0:
            work = {"&": lambda x, y: x & y, "|": lambda x, y: x | y, "^": lambda x, y: x ^ y}[op]
            return Node(f"({a.text} {op} {b.text})", 0, (1 << max(a.high, b.high).bit_length()) - 1, lambda at: work(a.value(at), b.value(at)))
        if op in ("<<", ">>") and a.low >= 0:
            n = dice.randrange(12)
            if op == ">>":
                return Node(f"({a.text} >> {n})", 0, a.high, lambda at: a.value(at) >> n)
            if a.high << n < LIMIT:
                return Node(f"({a.text} << {n})", 0, a.high << n, lambda at: a.value(at) << n)
        if op == "&&":
            return Node(f"({a.text} && {b.text})", 0, 1, lambda at: int(bool(a.value(at) and b.value(at))))
        if op == "||":
            return Node(f"({a.text} || {b.text})", 0, 1, lambda at: int(bool(a.value(at) or b.value(at))))
        if op == "!":
            return Node(f"(!{a.text})", 0, 1, lambda at: int(not a.value(at)))
        if op == "neg":
            return Node(f"(-{a.text})", -a.high, -a.low, lambda at: -a.value(at))
        if op == "?":
            c = self.expression(depth + 1)
            return Node(f"({c.text} ? {a.text} : {b.text})", min(a.low, b.low), max(a.high, b.high),
                        lambda at: a.value(at) if c.value(at) else b.value(at))
        work = {"<": lambda x, y: x < y, "<=": lambda x, y: x <= y, ">": lambda x, y: x > y, ">=": lambda x, y: x >= y,
                "!=": lambda x, y: x != y}.get(op, lambda x, y: x == y)
        text = op if op in ("<", "<=", ">", ">=", "!=") else "=="
        return Node(f"({a.text} {text} {b.text})", 0, 1, lambda at: int(work(a.value(at), b.value(at))))

    def bounded(self, most):
        """An expression of at most so much."""
        e = self.expression()
        if -most <= e.low and e.high <= most:
            return e
        return Node(f"({e.text} % {most})", -most, most, lambda at: e.value(at) - int(abs(e.value(at)) // most * most * (1 if e.value(at) > 0 else -1)))

    def key(self, name):
        kind = self.dice.randrange(5)
        texts, named = self.classes.texts[name], self.classes.named[name]
        def value(at, get):
            try:
                return get(at.event["fields"])
            except KeyError:
                raise Skip from None
        if kind == 0 and texts:
            f = self.dice.choice(texts)
            return f"event.{f}", lambda at: value(at, lambda fields: fields[f])
        if kind == 1 and named:
            f = self.dice.choice(named)
            return f"event.{f}_name", lambda at: value(at, lambda fields: fields[f]["name"])
        e = self.expression(1)
        return e.text, e.value

    def statement(self, name, depth=0):
        """(text, what it does)."""
        dice = self.dice
        kind = dice.randrange(9 if depth < 2 else 7)
        if kind == 0:
            g, e = dice.choice(self.globals), self.bounded(INCREMENT)
            self.assigned.add(g)
            def add(at):
                at.variables[g] += e.value(at)
            return f"{g} += {e.text};", add
        if kind == 1:
            g, e = dice.choice(self.globals), self.bounded(VARIABLE)
            self.assigned.add(g)
            def assign(at):
                at.variables[g] = e.value(at)
            return f"{g} = {e.text};", assign
        if kind == 2:
            e = self.bounded(VARIABLE)
            self.this.add(f"t{self.number}")
            def keep(at):
                at.this[f"t{self.number}"] = e.value(at)
            return f"this.t{self.number} = {e.text};", keep
        if kind == 3:
            self.has_map = True
            k, e = self.expression(2), self.bounded(INCREMENT)
            k = Node(f"({k.text} % 8)", 0, 8, lambda at, v=k.value: v(at) - int(abs(v(at)) // 8 * 8 * (1 if v(at) > 0 else -1)))
            def put(at):
                at.variables[self.map, k.value(at)] += e.value(at)
            return f"{self.map}[{k.text}] += {e.text};", put
        if kind >= 7:
            c = self.expression()
            yes, no = self.block(name, depth + 1), self.block(name, depth + 1) if dice.random() < 0.5 else None
            def branch(at):
                run(yes[1] if c.value(at) else no[1] if no else [], at)
            return f"if ({c.text}) {{ {yes[0]} }}" + (f" else {{ {no[0]} }}" if no else ""), branch
        function = dice.choice(["count", "count", "sum", "min", "max", "avg", "quantize", "distinct"])
        a = f"@a{self.number}_{self.aggregations}"
        self.aggregations += 1
        keys = [self.key(name) for _ in range(dice.randrange(3))]
        e = self.expression() if function != "count" else None
        if not keys and function == "count":
            self.counts[a] = 1
        self.functions[a] = function
        def aggregate(at):
            at.results[a][tuple(key(at) for _, key in keys)].append(e.value(at) if e else 1)
        return f"{a}{'[' + ', '.join(t for t, _ in keys) + ']' if keys else ''} = {function}({e.text if e else ''});", aggregate

    def block(self, name, depth):
        parts = [self.statement(name, depth) for _ in range(self.dice.randrange(1, 4))]
        return " ".join(text for text, _ in parts), [work for _, work in parts]

    def program(self):
        """(text, its clauses: (class, condition, statements), functions of aggregations, printed variables)"""
        self.functions, clauses, texts = {}, [], []
        for _ in range(self.dice.randrange(1, 4)):
            name = self.dice.choice(self.classes.usable)
            self.fields = self.classes.ranges[name]
            condition = self.expression() if self.dice.random() < 0.6 else None
            text, work = self.block(name, 0)
            clauses.append((name, condition, work))
            texts.append(f'"{name}"' + (f" /{condition.text}/" if condition else "") + f" {{ {text} }}")
        printed = sorted(self.assigned)
        # a variable may be read in a clause before it is assigned: 0 until then
        if printed:
            texts.append(f'end {{ printf("{self.number}{" %d" * len(printed)}", {", ".join(printed)}); }}')
        return "\n".join(texts), clauses, self.functions, printed


def run(statements, at):
    for work in statements:
        try:
            work(at)
        except Skip:
            pass


def with_ranges(classes):
    """Adds what the numbers of each class's fields are."""
    classes.ranges = {}
    for name, fields in classes.numbers.items():
        values = collections.defaultdict(list)
        for event in classes.events[name]:
            for f in fields:
                if f in event["fields"]:
                    values[f].append(test_watch.number(event["fields"][f]))
        classes.ranges[name] = {f: (min(v), max(v)) for f, v in values.items()}
    return classes


def evaluate(clauses, classes):
    at = State()
    names = {name for name, _, _ in clauses}
    events = [event for event in classes.all if event["name"] in names]
    for event in events:
        at.event, at.this = event, {}
        for name, condition, work in clauses:
            if event["name"] != name:
                continue
            try:
                holds = condition is None or condition.value(at)
            except Skip:
                holds = False
            if holds:
                run(work, at)
    return at


def make(seed, events, count, is_usable=None):
    """Programs of a seed, of which each can be run beside the others: (number, text, expected results, functions, printed). is_usable: of which
    classes, and then no name or path that other events of the trace give is used."""
    classes = with_ranges(test_watch.Classes(events))
    if is_usable:
        classes.usable = [name for name in classes.usable if is_usable(name)]
        for name, events_of in classes.events.items():
            classes.named[name] = [f for f in classes.named[name] if all(isinstance(e["fields"][f]["value"], int) for e in events_of if f in e["fields"])]
            classes.texts[name] = [f for f in classes.texts[name] if not any("\\" in e["fields"].get(f, "") for e in events_of)]
    classes.all = events
    for named in classes.named.values():  # the dump names the parts of socket addresses, of which the language makes a text
        named[:] = [f for f in named if not f.endswith("Address")]
    for number in range(count):
        text, clauses, functions, printed = Generator(random.Random(f"{seed} {number}"), classes, number).program()
        at = evaluate(clauses, classes)
        results = {a: {key: test_watch.aggregate(functions[a], values) for key, values in entries.items() if values} for a, entries in at.results.items()}
        yield number, text, results, functions, [at.variables[name] for name in printed]


def wrong(output, programs):
    """What of the output of programs that ran together is not as expected, a sentence each."""
    got, said = test_watch.results(output), {}
    for line in output.splitlines():
        row = json.loads(line)
        if "printf" in row:
            number, *values = (int(word) for word in row["printf"].split())
            said[number] = values
    for number, text, results, functions, printed in programs:
        if said.get(number, []) != printed:
            yield f"program {number}: {text}: expected {printed}, got {said.get(number)}"
        for a, function in functions.items():
            ours = {test_watch.plain_key(key): value for key, value in got.get(a, {}).items()}
            theirs = results.get(a, {})
            off = [k for k in theirs.keys() | ours.keys() if k not in ours or k not in theirs or not test_watch.same(function, ours[k], theirs[k])]
            if off:
                yield f"program {number}: {text}: {a}: " + "; ".join(f"{k}: expected {theirs.get(k)}, got {ours.get(k)}" for k in off[:3])
