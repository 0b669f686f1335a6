#!/usr/bin/env python3
"""Checks the tables of Sigma fields (config/sigma): each class of events and each field that they name exists, each option exists and brings
the classes of its row, and each row names a test of the value.

usage: tests/lint_sigma.py BUILD_FOLDER

Classes and fields are those that `etwagent schema` prints, and those of the manifests in config/schemas. Of a provider without a manifest there
only the option is checked: the machine's own manifest describes its events. Then faults are planted, and each must be found. Prints
FILE:LINE: sentence, exits 1 when there is any.
"""
import collections
import pathlib
import re
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parent.parent
TABLES = SOURCE / "config" / "sigma"
HEADS = {True: ["service", "channel", "provider", "option", "tested_by"], False: ["sigma_field", "event", "our_field", "option", "tested_by"]}
OF_IMAGES = {"ImageFile/Facts", "Account/Name"}  # events that an agent adds: of the images that it sees loaded


def known_classes(build):
    """{class: fields} of the classes that the program knows without a manifest."""
    printed = subprocess.run([build / "service" / "app" / "etwagent", "schema"], stdout=subprocess.PIPE, check=True, text=True).stdout
    classes, fields = collections.defaultdict(set), set()
    for line in printed.splitlines():
        head = re.match(r"(\S.*) v\d+, ", line)
        if head:
            fields = classes[head[1]]
        elif row := re.match(r"\s+\S+ +\S+ +(\w+)", line):
            fields.add(row[1])
    return dict(classes)


def known_providers():
    """{provider: {id: fields}} of config/schemas."""
    providers = {}
    for path in sorted((SOURCE / "config" / "schemas").glob("*.man")):
        text = path.read_text(encoding="utf-8-sig")
        templates = {found[1]: set(re.findall(r'<data [^>]*name="([^"]+)"', found[2]))
                     for found in re.finditer(r'<template [^>]*tid="([^"]+)"[^>]*>(.*?)</template>', text, re.S)}
        events = collections.defaultdict(set)
        for found in re.finditer(r"<event ([^>]*)>", text):
            attributes = dict(re.findall(r'(\w+)="([^"]*)"', found[1]))
            events[int(attributes["value"])] |= templates.get(attributes.get("template"), set())
        providers[path.stem] = dict(events)
    return providers


def class_flags():
    """[(pattern, flags)] of config/class_flags.c."""
    text = (SOURCE / "config" / "class_flags.c").read_text(encoding="utf-8")
    return re.findall(r'\{"([^"]+)", "([^"]*)"\}', text)


def short(provider):
    return re.sub(r"^Microsoft-(Windows-)?", "", provider)


class World:
    def __init__(self, build):
        self.classes, self.providers, self.flags_of = known_classes(build), known_providers(), class_flags()
        self.flags = set(re.findall(r'^ {4}\{"(\w+)", +0x', (SOURCE / "config" / "kernel_flags.c").read_text(encoding="utf-8"), re.M))

    def flag_of(self, name):
        for pattern, flags in self.flags_of:
            if re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), name):
                return set(flags.split("+")) | ({"PROCESS"} if name.startswith("Process/") else {"THREAD"} if name.startswith("Thread/") else set())
        return set()

    def fields_of(self, name, options):
        """The fields of a class; None: its provider has no manifest here. A class that is not known is a KeyError."""
        if name in self.classes:
            return self.classes[name]
        family, _, number = name.partition("/")
        for provider in [value for kind, value in options if kind == "provider"]:
            if short(provider) == family:
                events = self.providers.get(provider)
                return events[int(number)] if events is not None else None
        if any(kind == "log" for kind, _ in options):
            return None
        raise KeyError(name)


def options_of(text):
    """[(kind, value)]"""
    parts = [part.split(": ", 1) for part in text.split(" + ")]
    if any(len(part) != 2 for part in parts):
        raise ValueError("an option is KIND: VALUE")
    return [tuple(part) for part in parts]


def faults_of_row(world, sigma, events, field, options, tested):
    """Sentences."""
    kinds = {kind for kind, _ in options}
    for kind, value in options:
        if kind not in ("flags", "images", "provider", "policy", "log", "part", "none", "registry-values"):
            yield f"no kind of option is {kind}"
        if kind == "flags" and value not in world.flags or kind in ("images", "registry-values") and value != "true":
            yield f"no option is {kind}: {value}"
    if "none" in kinds:
        if (events, field, tested) != ("-", "-", "-"):
            yield "a field that nothing brings has no event, no field and no test"
        return
    if tested == "-" and "part" not in kinds or tested != "-" and not (SOURCE / "tests" / tested).is_file():
        yield f"no test is tests/{tested}"
    for alternative in events.split(","):
        first, *others = alternative.split("+")
        for name in (first, *others):
            try:
                fields = world.fields_of(name, options)
            except (KeyError, ValueError):
                yield f"no class of events is {name}"
                continue
            flags = world.flag_of(name)
            given = {value for kind, value in options if kind == "flags"}
            if name in OF_IMAGES and ("images" not in kinds or "LOADER" not in given) or name in world.classes and name not in OF_IMAGES and not flags & given:
                yield f"the option does not bring {name}"
            if name == first and fields is not None:
                own = re.match(r"(\w+)(?:!?=|:path$|$)", field)
                if own and own[1] not in fields:
                    yield f"{name} has no field {own[1]}"
        for source, needed in (("file", "ImageFile/Facts"), ("key", "/"), ("process.account", "Account/Name"), ("parent", "Process/"), ("target.path", "Process/")):
            if field.startswith(source) and needed not in alternative:
                yield f"{field} needs events of {needed}"


def faults_of_table(world, name, text):
    """[(line, sentence)]"""
    is_services, seen = name == "services", set()
    for number, line in enumerate(text.splitlines(), 1):
        columns = line.split("\t")
        if number == 1:
            if columns != HEADS[is_services]:
                yield number, f"the head is {HEADS[is_services]}"
            continue
        if len(columns) != 5 or not all(columns):
            yield number, "expected five columns"
            continue
        key = columns[0] if is_services else tuple(columns[:2])
        if key in seen:
            yield number, f"{key} is there twice"
        seen.add(key)
        try:
            options = options_of(columns[3])
        except ValueError as error:
            yield number, str(error)
            continue
        if is_services:
            providers = [value for kind, value in options if kind == "provider"]
            if providers and providers != [columns[2]] or not providers and not any(kind == "log" for kind, _ in options):
                yield number, f"the option does not bring {columns[2]}"
            if not (SOURCE / "tests" / columns[4]).is_file():
                yield number, f"no test is tests/{columns[4]}"
        else:
            for sentence in faults_of_row(world, columns[0], columns[1], columns[2], options, columns[4]):
                yield number, sentence


HEAD = "\t".join(HEADS[False]) + "\n"
PLANTED = [  # (a table's text, words of the fault)
    ("Image\tProcess/Begin\tImageFileName\tflags: PROCESS\te2e/test_state.py\n", "no class of events is Process/Begin"),
    ("Image\tProcess/Start\tImageName\tflags: PROCESS\te2e/test_state.py\n", "Process/Start has no field ImageName"),
    ("Image\tProcess/Start\tImageName:path\tflags: PROCESS\te2e/test_state.py\n", "Process/Start has no field ImageName"),
    ("@when\tImage/Load\tProcess=0\tflags: LOADER\te2e/test_state.py\n", "Image/Load has no field Process"),
    ("Image\tProcess/Start\tImageFileName\tflags: LOADER\te2e/test_state.py\n", "the option does not bring Process/Start"),
    ("Image\tProcess/Start\tImageFileName\tflags: PROCESSES\te2e/test_state.py\n", "no option is flags: PROCESSES"),
    ("Image\tProcess/Start\tImageFileName\tflag: PROCESS\te2e/test_state.py\n", "no kind of option is flag"),
    ("Image\tProcess/Start\tImageFileName\tflags: PROCESS\ttest_nothing.py\n", "no test is tests/test_nothing.py"),
    ("QueryName\tDNS-Client/3009999\tQueryName\tprovider: Microsoft-Windows-DNS-Client\te2e/test_catalogue.py\n", "no class of events is DNS-Client/3009999"),
    ("QueryName\tDNS-Client/3008\tName\tprovider: Microsoft-Windows-DNS-Client\te2e/test_catalogue.py\n", "DNS-Client/3008 has no field Name"),
    ("Product\tProcess/Start+ImageFile/Facts\tfile.ProductName\tflags: PROCESS + flags: LOADER\te2e/test_state.py\n", "the option does not bring ImageFile/Facts"),
    ("Product\tImage/Load\tfile.ProductName\tflags: LOADER\te2e/test_state.py\n", "file.ProductName needs events of ImageFile/Facts"),
    ("Image\tProcess/Start\tImageFileName\tflags: PROCESS\te2e/test_state.py\n" * 2, "is there twice"),
    ("Signed\tImage/Load\t-\tnone: why\t-\n", "a field that nothing brings"),
]


def main():
    world, failed = World(pathlib.Path(sys.argv[1])), 0
    tables = sorted(TABLES.glob("*.tsv"))
    rows = 0
    for path in tables:
        text = path.read_text(encoding="utf-8")
        rows += text.count("\n") - 1
        for number, sentence in faults_of_table(world, path.stem, text):
            failed = 1
            print(f"config/sigma/{path.name}:{number}: {sentence}")
    for text, words in PLANTED:
        found = [sentence for _, sentence in faults_of_table(world, "planted", HEAD + text)]
        if not any(words in sentence for sentence in found):
            failed = 1
            print(f"a planted fault is not found: {words}; found {found}")
    if not rows:
        failed = 1
        print("config/sigma has no tables")
    if not failed:
        print(f"{rows} rows of {len(tables)} tables name classes, fields, options and tests that exist")
    return failed


if __name__ == "__main__":
    sys.exit(main())
