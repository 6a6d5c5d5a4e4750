"""Checks an exported budget ledger: one file that needs nothing but Python, 3.8 or later.

    python verify_export.py ledger.jsonl [--head HEAD.json]

It prints every problem as `entry N: message`, then a verdict, and exits with 0 if the ledger is
sound, 1 if it is not, 2 if a file cannot be read. It shares nothing with the package that wrote the
ledger. BODIES and FIELDS say what entries hold; each `require` is a rule. An entry that breaks a
rule of Book is not counted. A wrong balance is named where it goes wrong, not at each entry after.

It cannot see that the end was cut off, or that entries were replaced and all hashes after them made
anew, unless --head gives a head published later than those (its signature is not checked here); nor
who wrote an entry, what the clock showed, or if a mechanism had the losses that its stage states.
"""

from __future__ import annotations

import argparse
import decimal
import hashlib
import json
import re
import sys
from collections.abc import Iterable, Iterator
from fractions import Fraction
from functools import lru_cache
from operator import add, le, neg, sub
from typing import Any
from unicodedata import category, normalize

AMOUNT = re.compile(r"[0-9]{1,30}(\.[0-9]{1,30})?(e-?[0-9]{1,3})?|[0-9]{1,1000}/[1-9][0-9]{0,999}")
DIGITS = decimal.Context(prec=20, Emin=-9999, Emax=9999)
BOUND = 10**1000  # all numerators and denominators are below it
TIME = re.compile(r"\d{4}-[01]\d-[0-3]\dT[0-2]\d:[0-5]\d:[0-5]\d\.\d{6}\+00:00", re.ASCII)
NOTHING = [Fraction(0), Fraction(0)]  # a budget: delta, epsilon. A pool: granted, then spent
FREE, ALL = None, 0  # the free pool, and all allocations together; a text is the pool of one
FOLLOWS = {"started": "charge", "release": "started", "void": "charge"}
TEXTS = ("body", "data_set", "hash", "kind", "previous_hash", "time")
TEXTS_OR_NULL = ("allocation", "balance", "release_key")


class Broken(Exception):
    """The entry breaks the rule in the message."""


def require(holds: object, rule: str) -> None:
    """Go on only if the rule holds."""
    if not holds:
        raise Broken(rule)


def canonical(document: object) -> str:
    """The one way to write a document: sorted keys, no blanks, ASCII, no NaN."""
    return json.dumps(document, sort_keys=True, separators=(",", ":"), allow_nan=False)


def read(text: str, what: str) -> dict[str, Any]:
    """The object that a text writes in the one way there is."""
    try:
        it = json.loads(text)
        written = canonical(it)
    except (ValueError, RecursionError):
        raise Broken(f"the {what} is not JSON") from None
    require(type(it) is dict and written == text, f"the {what} is no object in canonical JSON")
    return dict(it)


def read_entry(line: bytes | str) -> dict[str, Any]:
    """The entry in a line of an export."""
    text = line if isinstance(line, str) else line.decode("ascii", "replace")
    entry = read(text.rstrip("\r\n"), "line")
    require(entry.keys() == {"sequence", *TEXTS, *TEXTS_OR_NULL}, "the line is not an entry")
    given = [*TEXTS, *(name for name in TEXTS_OR_NULL if entry[name] is not None)]
    typed = type(entry["sequence"]) is int and all(type(entry[name]) is str for name in given)
    require(typed, "the line is not an entry: a field has a wrong type")
    return entry


@lru_cache(maxsize=50_000)
def exact(text: str) -> Any:
    """An amount: a decimal where 20 digits are exact, else p/q. None if it is written otherwise."""
    if not AMOUNT.fullmatch(text):
        return None
    value = Fraction(text)
    above, below = value.numerator, value.denominator
    short = DIGITS.divide(decimal.Decimal(above), decimal.Decimal(below)).normalize(DIGITS)
    written = format(short, "f" if -5 < short.adjusted() < 16 else "e").replace("+", "")
    written = written if Fraction(short) == value else f"{above}/{below}"
    return value if text == written and max(above, below) < BOUND else None


def amounts(it: Any) -> list[Fraction]:
    """The amounts in a budget or a pool, in the order of their names."""
    if type(it) is str:
        return [exact(it)]
    return [amount for field in sorted(it) for amount in amounts(it[field])]


def fits(asked: list[Fraction], room: list[Fraction]) -> bool:
    """Whether there is room for what is asked, in delta and in epsilon."""
    return all(map(le, asked, room))


def has(it: Any, fields: str) -> bool:
    """Whether it is an object of these fields, and each holds what it must."""
    same = type(it) is dict and it.keys() == set(fields.split())
    return same and all(HOLDS[field](it[field]) for field in it)


def is_line(it: Any, longest: int) -> bool:
    """Whether it is a line of printable text. Characters that this Python does not know pass."""
    short = type(it) is str and len(it) <= longest
    return short and (it.isprintable() or all(c.isprintable() or category(c) == "Cn" for c in it))


def normal(text: str) -> str:
    """The text with composed characters and without blanks around it, as names are written."""
    return normalize("NFC", text).strip()


def is_list(it: Any, test: Any) -> bool:
    """Whether it is a list of what passes the test."""
    return type(it) is list and all(map(test, it))


def is_loss(it: Any) -> bool:
    """Whether it is a loss: its kind, its amounts, and how often it occurs."""
    return any(has(it, f"count kind {LOSSES[kind]}") and it["kind"] == kind for kind in LOSSES)


LOSSES = {"pure": "epsilon", "gaussian": "leak mu", "approximate": "delta epsilon"}
BODIES = {  # the fields of each kind of entry; those of a release are free
    "grant": "actor budget purpose table unit",
    "raise": "actor budget reason",
    "allocation": "actor budget purpose",
    "table": "columns rows",
    "charge": "actor budget plan_hash purpose release_key stages unit",
    "started": "",
    "release": None,
    "void": "actor reason",
    "refusal": "actor asked granted plan_hash purpose release_key remaining shortfall spent",
    "rejection": "actor reason",
}
FIELDS: dict[str, Any] = {  # what each field of a body or a balance holds
    "actor kind purpose": lambda it: is_line(it, 10_000),
    "reason": lambda it: is_line(it, 10_000) and it.strip() != "",
    "name plan_hash release_key": lambda it: is_line(it, 200) and normal(it) == it != "",
    "columns": lambda it: is_list(it, HOLDS["name"]) and 0 < len(it) == len(set(it)),
    "count rows": lambda it: type(it) is int and it >= 1,
    "rows_per_person": lambda it: type(it) is int and 1 <= it <= 1_000_000,
    "relation": lambda it: it == "change-one",
    "unit": lambda it: has(it, "relation rows_per_person"),
    "table": lambda it: it is None or has(it, "columns rows"),
    "epsilon leak mu": lambda it: type(it) is str and exact(it) is not None,
    "delta": lambda it: type(it) is str and exact(it) is not None and exact(it) < 1,
    "budget asked granted spent remaining shortfall": lambda it: has(it, "delta epsilon"),
    "losses": lambda it: is_list(it, is_loss),
    "stages": lambda it: is_list(it, lambda stage: has(stage, "budget losses name")),
    "free allocations": lambda it: has(it, "granted spent"),
    "allocation": lambda it: it is None or has(it, "granted spent"),
}
HOLDS: dict[str, Any] = {name: test for names, test in FIELDS.items() for name in names.split()}


class Book:
    """What the entries of one data set add up to, and the rules for the next one."""

    def __init__(self) -> None:
        self.terms: Any = None  # those of the grant
        self.table: Any = None
        self.pools: dict[Any, list[Fraction]] = {FREE: NOTHING * 2, ALL: NOTHING * 2}
        self.keys: dict[str, tuple[int, str]] = {}  # how often each was charged, for which plan
        self.open: dict[Any, tuple[str, Any, list[Fraction]]] = {}  # charges: last kind, pool, cost
        self.excess: dict[Any, list[Fraction]] = {}  # of the stated balances over the pools

    def left(self, pool: Any) -> list[Fraction]:
        """What was granted to a pool less what was spent from it."""
        return list(map(sub, self.pools[pool][:2], self.pools[pool][2:]))

    def change(self, pool: Any, granted: list[Fraction], spent: list[Fraction]) -> None:
        """Add to what was granted to a pool and spent from it. Sums stay short enough to write."""
        for name in (FREE,) if pool is FREE else (pool, ALL):
            sums = list(map(add, self.pools.get(name, NOTHING * 2), granted + spent))
            require(all(x.numerator < BOUND > x.denominator for x in sums), "a sum is too long")
            self.pools[name] = sums

    def count(self, entry: dict[str, Any]) -> None:
        """The rules for all kinds, then those for this one."""
        kind, pool = entry["kind"], entry["allocation"]
        require(kind in BODIES, "the kind is unknown")
        body, fields = read(entry["body"], "body"), BODIES[kind]
        require(fields is None or has(body, fields), f"the body is not that of a {kind}")
        require(kind == "grant" or self.terms, "a grant must come first")
        keyed = kind == "charge" or kind in FOLLOWS
        require(keyed or entry["release_key"] is None, f"a {kind} has no release key")
        whole = kind in ("grant", "table", "rejection")
        require(pool is None or not whole, f"a {kind} has no allocation")
        require(pool in self.pools or kind == "allocation", "there is no such allocation")
        getattr(self, f"count_{kind}")(entry, body)

    def count_grant(self, entry: dict[str, Any], body: dict[str, Any]) -> None:
        """A data set is granted once. The grant may name the table."""
        require(self.terms is None, "the data set was granted before")
        self.enlarge(FREE, NOTHING, amounts(body["budget"]))
        self.terms, self.table = body, body["table"]

    def count_allocation(self, entry: dict[str, Any], body: dict[str, Any]) -> None:
        """An allocation has a name of its own."""
        require(HOLDS["name"](entry["allocation"]), "an allocation must have a name")
        require(entry["allocation"] not in self.pools, "the allocation was made before")
        self.enlarge(entry["allocation"], NOTHING, amounts(body["budget"]))

    def count_raise(self, entry: dict[str, Any], body: dict[str, Any]) -> None:
        """A raise states the new whole, of the grant or of an allocation."""
        pool = entry["allocation"]
        others = self.pools[ALL][:2] if pool is FREE else NOTHING
        self.enlarge(pool, list(map(add, self.pools[pool][:2], others)), amounts(body["budget"]))

    def enlarge(self, pool: Any, before: list[Fraction], after: list[Fraction]) -> None:
        """Budgets only grow. An allocation grows out of the free pool."""
        more = list(map(sub, after, before))
        require(all(after), "epsilon and delta must be above 0")
        require(fits(before, after) and any(more), "a raise must be to more than before")
        if pool is not FREE:
            require(fits(more, self.left(FREE)), "the free pool does not hold that much")
            self.change(FREE, list(map(neg, more)), NOTHING)
        self.change(pool, more, NOTHING)

    def count_table(self, entry: dict[str, Any], body: dict[str, Any]) -> None:
        """A table that the grant did not name is recorded, and later only gets more columns."""
        before = self.table or {"rows": body["rows"], "columns": []}
        known = body["columns"][: len(before["columns"])]
        require(self.terms["table"] is None, "the table was named in the grant")
        require(body["rows"] == before["rows"], "the number of rows was another before")
        require(known == before["columns"] != body["columns"], "no columns are added to the known")
        self.table = body

    def count_charge(self, entry: dict[str, Any], body: dict[str, Any]) -> None:
        """A charge has the next number of its key, and fits in what its pool has left."""
        pool, key, cost = entry["allocation"], body["release_key"], amounts(body["budget"])
        given, stages = key.partition("#")[0], NOTHING
        times, plan = self.keys.get(given, (0, body["plan_hash"]))
        for stage in body["stages"]:
            stages = list(map(add, stages, amounts(stage["budget"])))
        require(key == entry["release_key"], "the release key is not the one in the body")
        require(key == (f"{given}#{times + 1}" if times else given), "the key has another number")
        require(plan == body["plan_hash"], "the release key was used for another plan")
        require(body["unit"] == self.terms["unit"], "the unit is not that of the grant")
        require(self.table, "the table must be recorded before a charge")
        require(all(cost), "epsilon and delta must be above 0")
        require(fits(stages, cost), "the stages sum to more than the charge")
        covered = fits(cost, self.left(pool))
        self.keys[given] = times + 1, plan
        self.open[key] = "charge", pool, cost if covered else NOTHING
        require(covered, "the charge exceeds what remained")
        self.change(pool, NOTHING, cost)

    def follow(self, entry: dict[str, Any], body: dict[str, Any]) -> None:
        """A charge is started and then released; one that never started may be voided instead."""
        kind, key = entry["kind"], entry["release_key"]
        require(key in self.open, "no charge with this release key is open")
        last, pool, cost = self.open[key]
        require(pool == entry["allocation"], "the charge with this release key is another pool's")
        require(last == FOLLOWS[kind], f"a {kind} must follow a {FOLLOWS[kind]}, not a {last}")
        self.open[key] = kind, pool, cost
        if kind != "started":
            del self.open[key]
        if kind == "void":
            self.change(pool, NOTHING, list(map(neg, cost)))

    count_started = count_release = count_void = follow

    def count_refusal(self, entry: dict[str, Any], body: dict[str, Any]) -> None:
        """A refusal states what stood in its pool, and how much too little that was."""
        pool, left = self.pools[entry["allocation"]], self.left(entry["allocation"])
        lacking = [max(lack, Fraction(0)) for lack in map(sub, amounts(body["asked"]), left)]
        require(amounts(body["granted"]) == pool[:2], "the refusal states another grant")
        require(amounts(body["spent"]) == pool[2:], "the refusal states other spending")
        require(amounts(body["remaining"]) == left, "the refusal states another remainder")
        require(amounts(body["shortfall"]) == lacking, "the refusal states another shortfall")
        require(any(lacking), "the refused request would have fitted")

    def count_rejection(self, entry: dict[str, Any], body: dict[str, Any]) -> None:
        """A rejection changes nothing."""

    def compare(self, entry: dict[str, Any]) -> None:
        """The balance is what the entries leave. Only entries of format 1, the first, lack it."""
        if entry["balance"] is None:
            require(not self.excess, "the balance is missing")
            return
        stated = read(entry["balance"], "balance")
        require(has(stated, "allocation allocations free"), "the balance is not written as one")
        pools = {FREE: stated["free"], ALL: stated["allocations"]}
        if entry["allocation"] is not None and entry["allocation"] in self.pools:
            pools[entry["allocation"]] = stated["allocation"]
        wrong = (len(pools) == 3) != (stated["allocation"] is not None)
        for pool, it in pools.items():
            said, real = amounts(it) if it else NOTHING * 2, self.pools[pool]
            excess = [] if said == real else list(map(sub, said, real))
            wrong = wrong or excess not in ([], self.excess.get(pool))
            self.excess[pool] = excess
        require(not wrong, "the balance is not what the entries up to this one leave")


class Ledger:
    """The chain of all entries, and the book of each data set."""

    def __init__(self) -> None:
        self.length, self.hash, self.time = 0, "0" * 64, ""
        self.books: dict[str, Book] = {}

    def add(self, line: bytes | str) -> list[str]:
        """All that is wrong with the next line."""
        self.length += 1
        try:
            entry = read_entry(line)
        except Broken as problem:
            self.hash = self.time = ""
            return [str(problem)]
        found = [rule for holds, rule in self.chain(entry) if not holds]
        self.hash, self.time = entry["hash"], entry["time"]
        book = self.books.setdefault(entry["data_set"], Book())
        for rules in (book.count, book.compare):
            try:
                rules(entry)
            except Broken as problem:
                found.append(str(problem))
        return found

    def chain(self, entry: dict[str, Any]) -> Iterator[tuple[bool, str]]:
        """The rules for numbers, hashes and times. Format 1 had no allocation and no balance."""
        absent = {name for name in ("allocation", "balance") if entry[name] is None}
        hashed = canonical({name: entry[name] for name in entry.keys() - {"hash", *absent}})
        digest = hashlib.sha256(hashed.encode("ascii")).hexdigest()
        is_time, is_later = TIME.fullmatch(entry["time"]), entry["time"] >= self.time
        yield entry["sequence"] == self.length, f"the sequence number must be {self.length}"
        yield entry["previous_hash"] == self.hash, "the previous hash is not that before it"
        yield entry["hash"] == digest, "the entry was changed: its hash does not match its content"
        yield is_time is not None, "the time is not UTC with microseconds"
        yield is_later or is_time is None, "the time is before that of the line before"

    def check(self, lines: Iterable[bytes | str], head: Any = None) -> Iterator[tuple[int, str]]:
        """Every problem of the lines with its position, and of what a published head says."""
        found = None
        for line in lines:
            for message in self.add(line):
                yield self.length, message
            if head and self.length == head["entries"]:
                found = self.hash
        if head and self.length < head["entries"]:
            yield head["entries"], "the published head counts this entry: the end was cut off"
        elif head and found != head["hash"]:
            yield head["entries"], "the entry is not that of the published head"


def verify(lines: Iterable[bytes | str], head: Any = None) -> list[tuple[int, str]]:
    """Every problem of an export with its position, counted from 1."""
    return list(Ledger().check(lines, head))


def read_head(path: str) -> Any:
    """What a published head says: how many entries there were, and the hash of the last."""
    with open(path, "rb") as file:
        try:
            head = json.loads(file.read())
        except (ValueError, RecursionError):
            head = None
    known = type(head) is dict and HOLDS["count"](head.get("entries")) and "hash" in head
    require(known, f"{path!a} is not the head of a ledger")
    return head


def main() -> int:
    """Check the file that the command line names."""
    parser = argparse.ArgumentParser(usage=argparse.SUPPRESS, description="Checks a budget ledger.")
    parser.add_argument("ledger", metavar="LEDGER.jsonl", help="what `accountant export` printed")
    parser.add_argument("--head", metavar="HEAD.json", help="what `accountant head` printed before")
    given, ledger, count = parser.parse_args(), Ledger(), 0
    try:
        head = read_head(given.head) if given.head else None
        with open(given.ledger, "rb") as lines:
            for position, message in ledger.check(lines, head):
                sys.stdout.write(f"entry {position}: {message}\n")
                count += 1
    except (OSError, Broken) as error:
        parser.error(str(error))
    verdict = f"{count} problems" if count else f"sound; last hash {ledger.hash}"
    sys.stdout.write(f"{ledger.length} entries, {verdict}\n")
    return 1 if count else 0


if __name__ == "__main__":
    sys.exit(main())
