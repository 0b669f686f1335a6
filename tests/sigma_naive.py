"""Sigma rules, evaluated naively: the second opinion for proto/rules. It shares nothing with the engine: rules are Python
values, texts are matched by Python's regular expressions, a condition is a tree that is walked.

A rule is a mapping as YAML gives it, of which scalars are texts and null is None. An event is a list of (field, text); a
text may hold bytes that are not UTF-8 as surrogates (surrogateescape).
"""
import base64
import fnmatch
import fractions
import ipaddress
import itertools
import math
import random
import re

try:
    from re import _constants as sre_constants, _parser as sre_parser
except ImportError:  # before Python 3.11
    import sre_constants
    import sre_parse as sre_parser

DASHES = "-/\u2013\u2014\u2015"
ENCODINGS = ("base64", "base64offset", "utf16", "utf16le", "utf16be", "wide", "windash")


class Unusable(Exception):
    """Nothing that this evaluator knows."""


def as_bytes(text):
    return text.encode("utf-8", "surrogateescape")


def as_text(data):
    return data.decode("utf-8", "surrogateescape")


# ---- texts: lists of characters and of the wildcards ("*",) and ("?",) ----
def unescape(value):
    """The specification's "Escaping": before a wildcard two backslashes are one, and one that is left makes the wildcard plain; elsewhere one or
    two backslashes are one, three or four are two."""
    out = []
    for before, wildcard, run, text in re.findall(r"(\\*)([*?])|(\\+)|([^\\*?]+)", value):
        if wildcard:
            out += "\\" * (len(before) // 2)
            out.append(wildcard if len(before) % 2 else (wildcard,))
        else:
            out += "\\" * ((len(run) + 1) // 2) + text
    return out


def windash(parts):
    """A dash after which a word begins, and before which none ends, is each of the five. A word begins with a letter, a digit or _ of ASCII."""
    text = "".join(" " if isinstance(part, tuple) else part for part in parts)
    found = [found.start() for found in re.finditer(rf"(?<!\w)[{DASHES}](?=[A-Za-z0-9_])", text)]
    made = []
    for dashes in itertools.product(DASHES, repeat=len(found)):
        made.append(list(parts))
        for at, dash in zip(found, dashes, strict=True):
            made[-1][at] = dash
    return made


def base64_at(data, offset):
    """The digits that encode the data wherever it is: those that are the same whatever the bytes around it are."""
    after = -(offset + len(data)) % 3
    zeros, ones = (base64.b64encode(byte * offset + data + byte * after).decode() for byte in (b"\0", b"\xff"))
    return "".join(digit for digit, other in zip(zeros, ones, strict=True) if digit == other)


def encoded(parts, name):
    if any(isinstance(part, tuple) for part in parts) or not parts:
        raise Unusable("a wildcard or nothing is encoded")
    text = "".join(parts)
    data = as_bytes(text)
    if name == "base64":
        return [base64.b64encode(data).decode()]
    if name == "base64offset":
        return [base64_at(data, offset) for offset in range(3)]
    if name == "utf16":
        return [as_text(b"\xff\xfe" + text.encode("utf-16-le", "surrogatepass"))]
    return [as_text(text.encode("utf-16-be" if name == "utf16be" else "utf-16-le", "surrogatepass"))]


def texts_of(value, modifiers, is_keyword):
    """The texts that a value stands for, each a list of parts."""
    made = [unescape(value)]
    for name in modifiers:
        if name == "windash":
            made = [text for parts in made for text in windash(parts)]
        elif name in ENCODINGS:
            made = [list(text) for parts in made for text in encoded(parts, name)]
    places = {"contains", "startswith", "endswith"} & set(modifiers)
    before = bool(places & {"contains", "endswith"}) or (is_keyword and not places)
    after = bool(places & {"contains", "startswith"}) or (is_keyword and not places)
    return [[("*",)] * before + parts + [("*",)] * after for parts in made]


def expression_of(parts):
    return "".join("(?:.|\n)*" if part == ("*",) else "(?:.|\n)" if part == ("?",) else re.escape(part) for part in parts)


def number(text):
    if not re.fullmatch(r"[-+]?(0[xX][0-9a-fA-F]+|[0-9]+(\.[0-9]+)?)", text):
        return None
    if "." in text:
        return float(text)
    return int(text, 16 if "x" in text.lower() else 10)


def address(text):
    try:
        return None if "%" in text else ipaddress.ip_address(text)
    except ValueError:
        return None


# ---- detections: trees of ("and", [...]), ("or", [...]), ("not", x), ("leaf", field, kind, argument) ----
def leaf(field, value, modifiers):
    if value is None and field is None:
        raise Unusable("null is no keyword")
    if value is None and "exists" not in modifiers:
        return ("not", ("leaf", field, "exists", None))
    if "re" in modifiers:
        flags = re.ASCII | (re.I if "i" in modifiers else 0) | (re.M if "m" in modifiers else 0) | (re.S if "s" in modifiers else 0)
        try:
            return ("leaf", field, "re", re.compile(value, flags))
        except (re.error, RecursionError) as error:
            raise Unusable(f"re: {error}") from None
    if "cidr" in modifiers:
        return ("leaf", field, "cidr", ipaddress.ip_network(value, strict=False))
    if "exists" in modifiers:
        found = ("leaf", field, "exists", None)
        return found if value in ("true", "yes") else ("not", found)
    if "fieldref" in modifiers:
        return ("leaf", field, "field", (value, tuple(modifiers)))
    for name in ("lt", "lte", "gt", "gte"):
        if name in modifiers:
            return ("leaf", field, name, number(value))
    flags = re.ASCII | (0 if "cased" in modifiers else re.I)
    made = [("leaf", field, "text", (re.compile(expression_of(parts), flags), parts)) for parts in
            texts_of(value, modifiers, field is None)]
    return made[0] if len(made) == 1 else ("or", made)


def item(key, value):
    field, *modifiers = key.split("|")
    known = {"all", "cased", "cidr", "contains", "endswith", "exists", "fieldref", "gt", "gte", "i", "lt", "lte", "m", "neq", "re", "s",
             "startswith", *ENCODINGS}
    if set(modifiers) - known:
        raise Unusable(f"modifier {set(modifiers) - known}")
    values = value if isinstance(value, list) else [value]
    leaves = [leaf(field or None, one, modifiers) for one in values]
    tree = leaves[0] if len(leaves) == 1 else ("and" if "all" in modifiers else "or", leaves)
    return ("not", tree) if "neq" in modifiers else tree


def search(value):
    if isinstance(value, dict):
        return ("and", [item(key, one) for key, one in value.items()])
    if isinstance(value, list):
        return ("or", [search(one) for one in value])
    return item("", value)


def condition(text, searches):
    words = re.findall(r"[()|]|[^\s()|]+", text)

    def take():
        return words.pop(0) if words else ""

    def one():
        word = take()
        if word == "(":
            tree = either()
            if take() != ")":
                raise Unusable("a parenthesis")
            return tree
        if words and words[0].lower() == "of":
            take()
            pattern = take()
            names = [name for name in searches if (not name.startswith("_") if pattern.lower() == "them" else
                                                   fnmatch.fnmatchcase(name, pattern.replace("[", "[[]").replace("?", "[?]")))]
            if not names or word.lower() not in ("1", "any", "all"):
                raise Unusable(f"{word} of {pattern}")
            return ("and" if word.lower() == "all" else "or", [searches[name] for name in names])
        if word not in searches:
            raise Unusable(f"no search {word}")
        return searches[word]

    def negated():
        if words and words[0].lower() == "not":
            take()
            return ("not", negated())
        return one()

    def both():
        trees = [negated()]
        while words and words[0].lower() == "and":
            take()
            trees.append(negated())
        return ("and", trees)

    def either():
        trees = [both()]
        while words and words[0].lower() == "or":
            take()
            trees.append(both())
        return ("or", trees)

    tree = either()
    if words:
        raise Unusable(f"condition: {words[0]}")
    return tree


def tree_of(rule):
    detection = rule["detection"]
    if "timeframe" in detection:
        raise Unusable("timeframe")
    searches = {name: search(value) for name, value in detection.items() if name != "condition"}
    conditions = detection["condition"]
    if not isinstance(conditions, list):
        conditions = [conditions]
    return ("or", [condition(text, searches) for text in conditions])


def fits(tree, event):
    kind = tree[0]
    if kind == "and":
        return all(fits(child, event) for child in tree[1])
    if kind == "or":
        return any(fits(child, event) for child in tree[1])
    if kind == "not":
        return not fits(tree[1], event)
    _, field, how, argument = tree
    values = [text for name, text in event if field is None or name == field]
    if how == "exists":
        return bool(values)
    if how == "text":
        return any(argument[0].fullmatch(text) for text in values)
    if how == "re":
        return any(argument.search(text) for text in values)
    if how == "cidr":
        return any(a is not None and a.version == argument.version and a in argument for a in map(address, values))
    if how == "field":
        other, modifiers = argument
        fold = (lambda s: s) if "cased" in modifiers else (lambda s: re.sub("[A-Z]+", lambda m: m.group().lower(), s))
        compare = str.startswith if "startswith" in modifiers else str.endswith if "endswith" in modifiers else str.__eq__
        return any(compare(fold(a), fold(b)) for a in values for name, b in event if name == other)
    numbers = [n for n in map(number, values) if n is not None]
    return any({"lt": n < argument, "lte": n <= argument, "gt": n > argument, "gte": n >= argument}[how] for n in numbers)


# ---- events that probably fit: one for each branch ----
def sample(parsed, rng):
    """A text that the parsed regular expression probably matches."""
    out = []
    for op, argument in parsed:
        name = str(op)
        if op == sre_constants.LITERAL:
            out.append(chr(argument))
        elif op == sre_constants.NOT_LITERAL:
            out.append("x" if argument != ord("x") else "y")
        elif op == sre_constants.ANY:
            out.append(rng.choice("ab1_"))
        elif op == sre_constants.IN:
            out.append(sample_class(argument, rng))
        elif op == sre_constants.BRANCH:
            out.append(sample(rng.choice(argument[1]), rng))
        elif op == sre_constants.SUBPATTERN:
            out.append(sample(argument[3], rng))
        elif name.endswith("REPEAT"):
            low, high, inner = argument
            count = low if high == low else rng.randint(low, min(int(high), low + 2))
            out.append("".join(sample(inner, rng) for _ in range(count)))
    return "".join(out)


def sample_class(parts, rng):
    negated = parts[0][0] == sre_constants.NEGATE
    if negated:
        pattern = [chr(c) for c in range(33, 127)]
        return rng.choice([c for c in pattern if not any(in_class(part, c) for part in parts[1:])] or ["x"])
    op, argument = rng.choice(parts)
    if op == sre_constants.LITERAL:
        return chr(argument)
    if op == sre_constants.RANGE:
        return chr(rng.randint(*argument))
    return {"CATEGORY_DIGIT": "7", "CATEGORY_SPACE": " ", "CATEGORY_WORD": "w"}.get(str(argument), "%")


def in_class(part, c):
    op, argument = part
    if op == sre_constants.LITERAL:
        return chr(argument) == c
    if op == sre_constants.RANGE:
        return argument[0] <= ord(c) <= argument[1]
    name = str(argument)
    value = c.isdigit() if "DIGIT" in name else c.isspace() if "SPACE" in name else c.isalnum() or c == "_"
    return value != ("NOT" in name)


def wishes(tree, want, turn, rng, out):
    """Collects (field, kind, argument) of leaves that have to hold; turn chooses among alternatives."""
    kind = tree[0]
    if kind == "not":
        wishes(tree[1], not want, turn, rng, out)
    elif kind == "leaf":
        if want:
            out.append(tree[1:])
    elif (kind == "and") == want:
        for child in tree[1]:
            wishes(child, want, turn, rng, out)
    else:
        wishes(tree[1][turn % len(tree[1])], want, turn // 1 if len(tree[1]) > 1 else turn, rng, out)


def branches(tree):
    kind = tree[0]
    if kind == "leaf":
        return 1
    if kind == "not":
        return branches(tree[1])
    return max([branches(child) for child in tree[1]] + [len(tree[1]) if kind == "or" else 1])


def plain(parts, rng):
    return "".join(rng.choice(("", "z", "zz")) if part == ("*",) else "q" if part == ("?",) else part for part in parts)


def positive(tree, turn, rng):
    """An event that probably fits the tree."""
    found = []
    wishes(tree, True, turn, rng, found)
    fields = {}
    for field, kind, argument in found:
        fields.setdefault(field or "Keywords", []).append((kind, argument))
    event = []
    for field, asked in fields.items():
        texts, text = [], None
        for kind, argument in asked:
            if kind == "text":
                texts.append(argument[1])
            elif kind == "re":
                text = sample(sre_parser.parse(argument.pattern, argument.flags), rng)
            elif kind == "cidr":
                text = str(argument[rng.randrange(min(argument.num_addresses, 1 << 16))])
            elif kind in ("lt", "lte", "gt", "gte"):
                text = str(argument + {"lt": -1, "lte": 0, "gt": 1, "gte": 0}[kind])
            elif kind == "field":
                other = argument[0]
                text = next((value for name, value in event if name == other), "same")
                if not any(name == other for name, value in event) and other not in fields:
                    event.append((other, text))
        texts.sort(key=lambda parts: (bool(parts) and parts[0] == ("*",), not (parts and parts[-1] == ("*",))))
        made = "".join(plain(parts, rng) for parts in texts)
        event.append((field, made if text is None else made + text if texts else text))
    return event


def changed(event, rng):
    """The event with one difference."""
    event = list(event)
    if not event:
        return [("Other", "x")]
    i = rng.randrange(len(event))
    field, text = event[i]
    how = rng.randrange(5)
    if how == 0:
        del event[i]
    elif how == 1 and text:
        at = rng.randrange(len(text))
        event[i] = (field, text[:at] + text[at + 1:])
    elif how == 2:
        at = rng.randint(0, len(text))
        event[i] = (field, text[:at] + rng.choice("x-/\\*") + text[at:])
    elif how == 3:
        event[i] = (field, text.swapcase() if text.isascii() else text + "x")
    else:
        event.append((field, text[::-1]))
    return event


def events_of(tree, most, seed):
    """Positive and negative candidates: one of each a branch, `most` branches at most."""
    rng = random.Random(seed)
    found = []
    for turn in range(min(branches(tree), most)):
        event = positive(tree, turn, rng)
        found += [event, changed(event, rng)]
    return found


def load_rules(text):
    """The documents of a rule file, by PyYAML: scalars stay texts, null becomes None."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = {}

    Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:~|null|Null|NULL|)$"), ["~", "n", "N", ""])
    return [document for document in yaml.load_all(text, Loader=Loader) if document is not None]


# ---- correlations ----
def whole_number(text):
    """The number that a text is for sums: whole, of 64 bits and a sign; None for others."""
    found = re.fullmatch(r"([-+]?)(0[xX][0-9a-fA-F]+|[0-9]+)", text or "")
    magnitude = int(found[2], 16 if found[2][:2] in ("0x", "0X") else 10) if found else 0
    return None if not found or magnitude >= 1 << 64 else -magnitude if found[1] == "-" else magnitude


def in_order(rules, seen):
    """Whether the rules are in this order among those that were seen, the last of them at the end."""
    left = list(rules)
    for rule in seen:
        if left and rule == left[0]:
            left.pop(0)
    return not left and seen[-1] == rules[-1]


def correlation_found(correlation, span):
    """What a detection says of the matches of a span, of which the last one is at hand; None: the condition does not hold. A match is (time, rule, fields)."""
    kind, condition = correlation["type"], correlation.get("condition", {})
    values = [fields.get(condition.get("field")) for _, _, fields in span]
    numbers = sorted(n for n in map(whole_number, values) if n is not None)
    if kind.startswith("temporal"):
        seen = [rule for _, rule, _ in span]
        holds = set(seen) == set(correlation["rules"]) if kind == "temporal" else in_order(correlation["rules"], seen)
        return {"matches": str(len(span))} if holds else None
    if kind in ("event_count", "value_count"):
        name, result = ("matches", len(span)) if kind == "event_count" else ("values", len({v for v in values if v is not None}))
        text = str(result)
    elif not numbers:
        return None
    elif kind == "value_avg":
        name, result = "average", fractions.Fraction(sum(numbers), len(numbers))
        thousandths = abs(sum(numbers)) * 1000 // len(numbers)
        text = f"{'-' if result < 0 else ''}{thousandths // 1000}.{thousandths % 1000:03}"
    else:
        name = "sum" if kind == "value_sum" else "percentile"
        result = sum(numbers) if kind == "value_sum" else numbers[math.ceil(fractions.Fraction(condition["percentile"] * len(numbers), 100)) - 1]
        text = str(result)
    holds = result > condition["gt"] if "gt" in condition else result >= condition["gte"]
    return {name: text} if holds else None


def correlate(correlation, matches, span):
    """The detections of a correlation, by time: (time, fields). span: in the unit of the times; matches: in the order of their times."""
    groups, found = {}, []
    for match in matches:
        if match[1] in correlation["rules"]:
            groups.setdefault(tuple(match[2].get(field, "").lower() if field in match[2] else None for field in correlation.get("group-by", [])), []).append(match)
    for group in groups.values():
        last = None
        for i, (time, _, fields) in enumerate(group):
            said = correlation_found(correlation, [match for match in group[:i + 1] if match[0] >= time - span])
            if said and (last is None or time >= last + span):
                last = time
                found.append((time, {**{field: fields[field] for field in correlation.get("group-by", []) if field in fields}, **said}))
    return sorted(found, key=lambda detection: detection[0])
