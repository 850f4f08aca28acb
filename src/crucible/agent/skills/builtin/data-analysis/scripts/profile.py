"""Describes the table in the file that standard input (JSON: path, rows) names. The standard library only."""

import collections
import csv
import itertools
import json
import sys

MOST_ROWS = 1_000_000
MOST_DISTINCT = 50_000
MISSING = {"", "na", "n/a", "nan", "null", "none", "-"}


class Column:
    def __init__(self, name):
        self.name = name
        self.count = self.missing = self.whole = self.numbers = 0
        self.total = 0.0
        self.least = self.most = None
        self.values = collections.Counter()
        self.is_cut = False

    def add(self, value):
        self.count += 1
        text = "" if value is None else str(value).strip()
        if text.lower() in MISSING:
            self.missing += 1
            return
        if len(self.values) < MOST_DISTINCT or text in self.values:
            self.values[text] += 1
        else:
            self.is_cut = True
        try:
            number = float(text.replace(",", "")) if not isinstance(value, bool) else None
        except ValueError:
            number = None
        if number is None or number != number:
            return
        self.numbers += 1
        self.whole += number == int(number) if abs(number) < 1e15 else 0
        self.total += number
        self.least = number if self.least is None else min(self.least, number)
        self.most = number if self.most is None else max(self.most, number)

    def describe(self):
        there = self.count - self.missing
        if not there:
            return "%s: empty" % self.name
        distinct = "more than %d" % MOST_DISTINCT if self.is_cut else str(len(self.values))
        if self.numbers == there:
            kind = "whole numbers" if self.whole == there else "numbers"
            facts = "%g to %g, mean %g" % (self.least, self.most, self.total / self.numbers)
        else:
            kind = "text" if self.numbers < there // 2 else "mixed"
            common = ("%s (%d)" % (text[:40], n) for text, n in self.values.most_common(5))
            facts = "most frequent: " + ", ".join(common)
        return "%s: %s, %d missing, %s distinct, %s" % (
            self.name, kind, self.missing, distinct, facts,
        )  # fmt: skip


def rows_of(path):
    """Dicts, one for each row."""
    with open(path, encoding="utf-8-sig", errors="replace", newline="") as file:
        start = file.read(65536)
        file.seek(0)
        first = start.lstrip()[:1]
        if first == "[":
            found = json.load(file)
            yield from (one if isinstance(one, dict) else {"value": one} for one in found)
        elif first == "{":
            for line in file:
                if line.strip():
                    yield json.loads(line)
        else:
            try:
                dialect = csv.Sniffer().sniff(start, delimiters=",;\t|")
            except csv.Error:
                dialect = csv.excel
            yield from csv.DictReader(file, dialect=dialect, restkey="(more)")


def main():
    asked = json.load(sys.stdin)
    columns, shown, count = {}, [], 0
    try:
        for row in itertools.islice(rows_of(asked["path"]), MOST_ROWS):
            count += 1
            if len(shown) < (asked.get("rows") or 5):
                shown.append(row)
            for name, value in row.items():
                if name not in columns:
                    columns[name] = Column(str(name))
                    columns[name].missing = columns[name].count = count - 1
                columns[name].add(value)
    except OSError as error:
        sys.exit("%s cannot be read: %s" % (asked["path"], error.strerror))
    except ValueError as error:
        sys.exit("%s is no table that could be read: %s" % (asked["path"], error))
    more = " (only these were read)" if count == MOST_ROWS else ""
    print("%d rows, %d columns%s" % (count, len(columns), more))
    for column in columns.values():
        column.missing += count - column.count
        column.count = count
        print("- " + column.describe())
    print("first rows:")
    for row in shown:
        print(json.dumps(row, ensure_ascii=False, default=str)[:1000])


main()
