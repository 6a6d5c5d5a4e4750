"""Checks an exported budget ledger with Python 3.8 or later alone: each `require` is a rule.

    python verify_export.py ledger.jsonl [--head HEAD.json]

Prints every problem as `entry N: message`, then a verdict; exit status 0 sound, 1 not, 2 no file.
It shares nothing with the package, which also checks the form of texts and losses, and composes
the losses of committed charges (`accountant verify`). Under the rule gaussian it computes what a
grant holds and what losses cost in floats: an amount that is off by less than one part in 10^8 is
taken as it is stated, where the package wants every digit. All sums are exact. Only a head
published later shows a cut-off or renewed end.
"""

import hashlib
import json
import math
import re
import sys
from fractions import Fraction
from functools import partial
from operator import add, le, neg, sub
from pathlib import Path
from statistics import NormalDist

AMOUNT = re.compile(r"[0-9]{1,999}(\.[0-9]{1,30})?(e-?[0-9]{1,3})?|[0-9]{1,999}/[1-9][0-9]{0,999}")
#: A budget: delta, epsilon, 0; or (rule gaussian) delta aside, mu squared, leak. A pool: granted,
#: then spent.
NOTHING = [Fraction(0)] * 3
CLOSE = 1e-8  # floats here and sixty digits there agree to this part
TINY = Fraction(1, 10**290)  # the package rounds up to 300 decimal places, where floats reach zero
GRID = 10**300 * math.factorial(100)  # a little wider than the package's, and as bounded
FREE, ALL = None, 0  # the free pool, and all allocations together; a text is the pool of one
FOLLOWS = {"started": "charge", "release": "started", "void": "charge"}
MOVES = ("grant", "raise", "allocation", "charge")
FIELDS = set("sequence data_set kind allocation release_key time body balance hash".split())
FORMS = KeyError, TypeError, ValueError, AttributeError, RecursionError, ArithmeticError
canonical = partial(json.dumps, sort_keys=True, separators=(",", ":"), allow_nan=False)


def require(holds, rule):
    """Go on only if the rule holds."""
    if not holds:
        raise ValueError(rule)


def read(text):
    """The object that a text holds, if it is written in the one way."""
    try:
        it = json.loads(text)
        same = type(it) is dict and canonical(it) == text
    except (ValueError, TypeError, RecursionError):
        same = False
    require(same, "no object in canonical JSON")
    return it


def amounts(it, first="epsilon"):
    """The amounts of a budget that has these alone, as exact texts."""
    names = ["delta", first] + ["leak"] * (first == "mu_squared")
    require(sorted(it) == sorted(names), f"a budget has other fields than {', '.join(names)}")
    require(all(map(AMOUNT.fullmatch, it.values())), "an amount is not a decimal or a fraction")
    return [Fraction(it[name]) for name in names] + NOTHING[len(names) :]


def lifted(epsilon):
    """The mu at which a Gaussian covers a pure epsilon; about 1.2533 epsilon where it is small."""
    if epsilon < 1e-5:
        return epsilon * math.sqrt(math.pi / 2)
    return -2 * NormalDist().inv_cdf(1 / (1 + math.exp(epsilon)))


def number(text):
    """The amount in an exact text."""
    require(AMOUNT.fullmatch(text), "an amount is not a decimal or a fraction")
    return Fraction(text)


def gaussian_cost(stages):
    """What losses cost under the rule gaussian; of pure ones in floats."""
    delta = mu_squared = leak = Fraction(0)
    for loss in (loss for stage in stages for loss in stage["losses"]):
        count = loss["count"]
        require(type(count) is int and count > 0, "a loss is not there a whole number of times")
        gaussian = loss["kind"] == "gaussian"
        mu = number(loss["mu"] if gaussian else loss["epsilon"])
        mu = mu if gaussian else Fraction(lifted(float(mu)))
        mu_squared += count * mu**2
        delta += count * number(loss.get("delta", "0"))
        leak += count * number(loss.get("leak", "0"))
    return [delta, mu_squared, leak]


def near(stated, found):
    """Whether exact amounts are what was found with floats."""
    return all(abs(x - y) * 10**8 <= y + TINY for x, y in zip(stated, found))


def below(x):
    """How likely a normal is below x; accurate in the lower tail, as NormalDist.cdf is not."""
    return math.erfc(-x / math.sqrt(2)) / 2


class Book:
    """What the entries of one data set add up to, and the rules for the next one."""

    def __init__(self):
        self.terms = self.table = None  # the grant, and the rows and columns on record
        self.promise = NOTHING  # the budget of the grant, as raised since
        self.first = "epsilon"  # or mu_squared: what the rule of the grant counts beside delta
        self.pools = {FREE: NOTHING * 2, ALL: NOTHING * 2}
        self.keys, self.open, self.excess = {}, {}, {}  # charges by key; what balances overstate

    def left(self, pool):
        """What was granted to a pool less what was spent from it."""
        return list(map(sub, self.pools[pool][:3], self.pools[pool][3:]))

    def whole(self, entry, money):
        """What the grant holds with this budget: under the rule gaussian, what it says it does."""
        if self.first == "epsilon":
            return money
        delta, epsilon, _ = money
        require(self.promise[0] <= delta and self.promise[1] <= epsilon <= 100, "it is lowered")
        self.promise = money
        parts = [
            amounts(read(entry["balance"])[n]["granted"], self.first)
            for n in ("free", "allocations")
        ]
        aside, mu_squared, leak = map(add, *parts)
        first = amounts(self.terms["budget"])
        kept = first[0] / 2**20 / Fraction(1 + math.exp(first[1]))
        said = Fraction(self.terms.get("set_aside", "0"))
        require(aside == said, "another amount is aside than was set aside")
        require(near([leak], [kept]), "another leak is kept for rounding than a 2^-20 part")
        require(mu_squared > 0, "the grant holds no mu")
        weighed = float(aside) + float(leak) * (1 + math.exp(epsilon))
        mu = math.sqrt(mu_squared)
        head = below(mu / 2 - epsilon / mu)
        found = head - math.exp(epsilon) * below(-mu / 2 - epsilon / mu) + weighed
        off = CLOSE * delta + 1e-12 * head  # the difference of the two loses some digits
        require(abs(found - delta) <= off, "the grant holds another mu")
        return [aside, mu_squared, leak]

    def change(self, pool, granted, spent):
        """Add to what was granted to a pool and spent from it."""
        for name in (FREE,) if pool is FREE else (pool, ALL):
            self.pools[name] = list(map(add, self.pools.get(name, NOTHING * 2), granted + spent))

    def count(self, entry):
        """The rules, kind by kind."""
        kind, pool, key = entry["kind"], entry["allocation"], entry["release_key"]
        require(kind in (*MOVES, *FOLLOWS, "table", "refusal", "rejection"), "the kind is unknown")
        body = read(entry["body"])
        require(kind == "grant" or self.terms, "a grant must come first")
        require(key is None or kind == "charge" or kind in FOLLOWS, f"a {kind} has no release key")
        require(pool in self.pools or kind == "allocation", "there is no such allocation")
        if kind in MOVES:
            money = amounts(body["budget"], self.first if pool and kind != "charge" else "epsilon")
            simple = 0 < money[1] <= 10**100 and not any(GRID % x.denominator for x in money)
            require(simple and money[0] < 1, "an amount is zero, or large, or not simple")
            require(money[0] or "mu_squared" in body["budget"], "delta is above 0")
        if kind == "grant":
            require(self.terms is None, "the data set was granted before")
            self.terms, self.table = body, body["table"]
            self.first = "mu_squared" if body.get("rule") == "gaussian" else "epsilon"
            self.change(FREE, self.whole(entry, money), NOTHING)
        elif kind in ("allocation", "raise"):  # it states the new whole
            require(pool != "" and (kind == "raise" or pool not in self.pools), "the name is taken")
            others = NOTHING if pool else self.pools[ALL][:3]
            money = money if pool else self.whole(entry, money)
            more = list(map(sub, money, map(add, others, self.pools.get(pool, NOTHING)[:3])))
            require(all(map(le, NOTHING, more)) and any(more), "a raise must be to more")
            if pool is not FREE:  # an allocation grows out of the free pool
                require(all(map(le, more, self.left(FREE))), "the free pool does not hold that")
                self.change(FREE, list(map(neg, more)), NOTHING)
            self.change(pool, more, NOTHING)
        elif kind == "table":  # one that the grant did not name; later it only gets more columns
            require(self.terms["table"] is None, "the table was named in the grant")
            before, columns = self.table or {"rows": body["rows"], "columns": []}, body["columns"]
            added = columns[: len(before["columns"])] == before["columns"] != columns
            require(added and body["rows"] == before["rows"], "the known table only gets columns")
            self.table = body
        elif kind == "charge":
            given = body["release_key"].partition("#")[0]
            times, plan = self.keys.get(given, (0, body["plan_hash"]))
            stages = map(sum, zip(NOTHING, *(amounts(x["budget"]) for x in body["stages"])))
            summed = body.get("composition", "sum") == "sum"  # if not, the package composes losses
            require(key == body["release_key"], "the release key is not the one in the body")
            require(key == given + (f"#{times + 1}" if times else ""), "the key's number is wrong")
            require(plan == body["plan_hash"], "the release key was used for another plan")
            require(body["unit"] == self.terms["unit"], "the unit is not that of the grant")
            require(self.table, "the table must be recorded before a charge")
            require(
                not summed or all(map(le, stages, money)), "the stages sum to more than the charge"
            )
            money, right = self.cost(entry, body["stages"], money)
            covered = right and all(map(le, money, self.left(pool)))
            self.keys[given] = times + 1, plan
            self.open[key] = "charge", pool, money if covered else NOTHING
            require(right, "the losses cost another amount")
            require(covered, "the charge exceeds what remained")
            self.change(pool, NOTHING, money)
        elif kind in FOLLOWS:
            last, payer, cost = self.open.get(key, ("", FREE, NOTHING))
            require(last, "no charge has this release key")
            require(payer == pool, "the charge with this release key is another pool's")
            require(last == FOLLOWS[kind], f"a {kind} must follow a {FOLLOWS[kind]}, not a {last}")
            self.open[key] = kind, pool, cost
            if kind == "void":
                self.change(pool, NOTHING, list(map(neg, cost)))
        elif kind == "refusal":
            left, asked = self.left(pool), amounts(body["asked"], self.first)
            lacking = [max(lack, Fraction(0)) for lack in map(sub, asked, left)]
            names = "granted", "spent", "remaining"
            stated = [x for n in names for x in amounts(body[n], self.first)]
            require(stated == self.pools[pool] + left, "the refusal states another balance")
            require(amounts(body["shortfall"], self.first) == lacking, "the shortfall is another")
            require(any(lacking), "the refused request would have fitted")

    def cost(self, entry, stages, money):
        """What a charge costs, and whether that is right: read off the balance under gaussian."""
        if self.first == "epsilon":
            return money, True
        pool = entry["allocation"]
        said = read(entry["balance"])["free" if pool is FREE else "allocation"]["spent"]
        stated = list(map(sub, amounts(said, self.first), self.pools[pool][3:]))
        require(stages and all(x["losses"] for x in stages), "the stages state no losses")
        return stated, near(stated, gaussian_cost(stages))

    def compare(self, entry):
        """The balance is what the entries leave. Only entries of format 1, the first, lack it."""
        if entry["balance"] is None:
            require(not self.excess, "the balance is missing")
            return
        pool, stated, excess = entry["allocation"], read(entry["balance"]), {}
        for name, it in (("free", FREE), ("allocations", ALL), ("allocation", pool)):
            if name != "allocation" or (pool is not FREE and pool in self.pools):
                said = [
                    x for n in ("granted", "spent") for x in amounts(stated[name][n], self.first)
                ]
                excess[it] = list(map(sub, said, self.pools[it]))
        new = any(any(x) and x != self.excess.get(it) for it, x in excess.items())
        self.excess.update(excess)
        require(not new, "the balance is not what the entries up to this one leave")


def check(line, position, last, books):
    """The entry in a line that follows another, and every rule that it breaks."""
    entry, found, none = {}, [], {"hash": "", "time": ""}
    try:
        entry = read((line if isinstance(line, str) else line.decode("ascii")).rstrip("\r\n"))
        require(entry.keys() - {"previous_hash"} == FIELDS, "the line is no entry")
        absent = {name for name in ("allocation", "balance") if entry[name] is None}
        hashed = canonical({name: entry[name] for name in entry.keys() - {"hash", *absent}})
        digest = hashlib.sha256(hashed.encode()).hexdigest()
        book = books.setdefault(entry["data_set"], Book())
        chain = [
            (f"the sequence number must be {position}", entry["sequence"] == position),
            ("the previous hash is not that before it", entry["previous_hash"] == last["hash"]),
            ("the entry was changed: its hash does not match", entry["hash"] == digest),
            ("the time is before that of the line before", entry["time"] >= last["time"]),
        ]
        found += [rule for rule, holds in chain if not holds]
        for rules in (book.count, book.compare):
            try:
                rules(entry)
            except ValueError as problem:
                found.append(str(problem))
    except FORMS as problem:
        found.append(f"the entry does not hold what one of its kind does: {problem}")
    return {**none, **entry}, found


def verify(lines, head=None):
    """Every problem of an export with its position, counted from 1; and at 0 the verdict."""
    position, count, books, at_head, last = 0, 0, {}, None, {"hash": "0" * 64, "time": ""}
    for position, line in enumerate(lines, start=1):
        last, found = check(line, position, last, books)
        at_head = last["hash"] if head and head["entries"] == position else at_head
        count += len(found)
        yield from ((position, message) for message in found)
    if head and at_head != head["hash"]:
        count += 1
        yield head["entries"], "the entry of the published head is not there: cut off or rewritten"
    verdict = f"{count} problems" if count or not position else f"sound; last hash {last['hash']}"
    yield 0, f"{position} entries, {verdict}"


if __name__ == "__main__":
    MESSAGE = ""
    try:
        HEAD = json.loads(Path(sys.argv[3]).read_text()) if sys.argv[2:3] == ["--head"] else None
        with open(sys.argv[1], "rb") as LINES:
            for POSITION, MESSAGE in verify(LINES, HEAD):
                print(f"entry {POSITION}: {MESSAGE}" if POSITION else MESSAGE)
    except (OSError, ValueError, IndexError, KeyError, TypeError) as ERROR:
        print(f"verify_export.py ledger.jsonl [--head HEAD.json]: {ERROR}", file=sys.stderr)
    sys.exit(2 if not MESSAGE else 0 if "sound" in MESSAGE else 1)
