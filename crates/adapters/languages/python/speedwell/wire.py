"""The framing of the harness protocol: one message is one line, `verb TAB key=value ...`.

Bytes that would break the framing are written %XX; see docs/reference/protocol.md. This file is independent of
verbs.
"""

import re

# A line may be at most 1 MiB long; characters may need four bytes.
LIST_BUDGET = 200_000

_UNSAFE = re.compile(r"[\x00-\x1f%\x7f]")
_UNSAFE_IN_LIST = re.compile(r"[\x00-\x1f%\x7f,]")
_ESCAPES = re.compile(r"(?:%[0-9a-fA-F]{2})+")


def _escape(match):
    return f"%{ord(match.group()):02X}"


def decode_text(text):
    """Decodes the escapes; a `%` without two hex digits stays as it is."""
    def plain(match):
        return bytes.fromhex(match.group().replace("%", "")).decode("utf-8", "replace")
    return _ESCAPES.sub(plain, text)


class Command:
    """One command; its values stay escaped until it is known whether they are lists."""

    def __init__(self, line):
        self.verb, *words = line.split("\t")
        self.fields = dict(word.split("=", 1) for word in reversed(words) if "=" in word)

    def text(self, key):
        return decode_text(self.fields[key]) if key in self.fields else None

    def list(self, key):
        text = self.fields.get(key, "")
        return [decode_text(item) for item in text.split(",")] if text else []

    def number(self, key, otherwise):
        return int(self.fields.get(key, otherwise))


def encode(verb, fields):
    """Returns the lines of one message. Lists and tuples become lists, None is omitted; a list that would
    make its line too long continues in further lines, all but the last with `more=1`."""
    head, lists = [verb], []
    for key, value in fields.items():
        if isinstance(value, (list, tuple)):
            lists.append((key, [_UNSAFE_IN_LIST.sub(_escape, _text(item)) for item in value]))
        elif value is not None:
            head.append(f"{key}={_UNSAFE.sub(_escape, _text(value))}")
    lines = []
    while True:
        words, room = list(head), LIST_BUDGET
        for index, (key, items) in enumerate(lists):
            taken, room = _fitting(items, room)
            if taken or (not items and not lines):
                words.append(f"{key}={','.join(items[:taken])}")
            lists[index] = (key, items[taken:])
        more = any(items for _, items in lists)
        lines.append("\t".join(words + ["more=1"] * more))
        if not more:
            return "".join(f"{line}\n" for line in lines)


def _fitting(items, room):
    taken = 0
    while taken < len(items) and room > 0:
        room -= len(items[taken]) + 1
        taken += 1
    return taken, room


def _text(value):
    if isinstance(value, bool):
        return "1" if value else "0"
    return value if isinstance(value, str) else repr(value)
