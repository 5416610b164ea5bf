"""Check of a broker's log by rules that do not depend on the scheduler.

- A turn goes to a client that has asked and has no turn.
- Two clients have a turn at once only if the log's figures leave room for both, or one is overdue.
- No client begins while another one keeps memory that it was asked to give back, or has lost its
  connection without having ended, except if the other one is late.
- Every question is answered in time, except if its client has gone.
- When a broker ends, no client has a turn.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Record = dict[str, Any]


@dataclass
class _Client:
    card: str
    held: int = 0
    idle: int = 0
    needs: list[int] = field(default_factory=list)
    asked: float | None = None
    began: float | None = None
    overdue: bool = False
    crowded: bool = False
    late: bool = False
    lost: bool = False

    @property
    def running(self) -> bool:
        return self.began is not None and not self.overdue and not self.lost

    @property
    def most(self) -> int:
        return self.held - self.idle + max(self.needs[-8:], default=0)


@dataclass
class LogSummary:
    """Summary of a log.

    Args:
        turns: number of turns that were given.
        passed: number of questions that were answered by "go on without a turn".
        ends: number of processes that ended without a goodbye.
        brokers: number of brokers that began.
        wrong: a sentence for each broken rule.
    """

    turns: int = 0
    passed: int = 0
    ends: int = 0
    brokers: int = 0
    wrong: list[str] = field(default_factory=list)


class Oracle:
    """A reader of logs with its own record of clients and turns.

    Args:
        slack: seconds by which an answer may be later than promised, for busy machines.
    """

    def __init__(self, slack: float = 0.001) -> None:
        self._slack = slack
        self._clients: dict[int, _Client] = {}
        self._totals: dict[str, int] = {}
        self._foreign: dict[str, int] = {}
        self._patience = float("inf")
        self._last = 0
        self.summary = LogSummary()

    def read(self, records: Iterable[Record]) -> LogSummary:
        """Read all records, and return the summary."""
        for record in records:
            self._line(record)
        return self.summary

    def _wrong(self, record: Record, text: str) -> None:
        self.summary.wrong.append(f"line {record['n']}: {text}")

    def _line(self, record: Record) -> None:
        event = record["event"]
        if event == "begin":
            self.summary.brokers += 1
            self._clients, self._last = {}, record["n"]
            if self._last != 1:
                self._wrong(record, "a broker's first line has the number 1")
            self._patience = record["patience"]
            return
        if self._last and record["n"] != self._last + 1:
            self._wrong(record, f"follows line {self._last}")
        self._last = record["n"]
        for number, one in self._clients.items():
            if number != record.get("client"):
                self._in_time(record, number, one)
        if event == "refused":
            return
        if event == "end":
            for number, one in self._clients.items():
                if one.began is not None:
                    self._wrong(record, f"client {number} still had a turn")
        elif event == "join":
            client = _Client(record["card"], record["held"], record["idle"])
            if record["client"] in self._clients:
                self._wrong(record, f"client {record['client']} is there already")
            self._clients[record["client"]] = client
            self._totals[client.card] = record["total"]
            self._foreign[client.card] = record["foreign"]
        elif record["client"] not in self._clients:
            what = "a turn" if event == "turn" else event
            self._wrong(record, f"{what} for client {record['client']}, which is not there")
        else:
            self._of(record, self._clients[record["client"]])

    def _of(self, record: Record, client: _Client) -> None:
        event = record["event"]
        if event == "rejoin":
            self._rejoin(record, client)
        elif event == "ask":
            client.asked = record["t"]
        elif event == "turn":
            self._turn(record, client)
        elif event in ("give", "released"):
            client.held, client.idle = record["held"], record["idle"]
            self._foreign[client.card] = record["foreign"]
            client.late = client.late and client.idle > 0
            if event == "give":
                if client.began is None:
                    self._wrong(record, f"client {record['client']} had no turn to give")
                client.began, client.overdue = None, False
                client.needs += [record["need"]] if record["need"] is not None else []
        elif event in ("withdraw", "pass"):
            if client.asked is None:
                self._wrong(record, f"client {record['client']} had not asked")
            elif event == "pass":
                self.summary.passed += 1
                self._in_time(record, record["client"], client)
            client.asked = None
        elif event in ("leave", "gone"):
            self.summary.ends += event == "gone"
            del self._clients[record["client"]]
        elif event == "lost":
            client.lost, client.asked = True, None
        elif event == "overdue":
            client.overdue = True
        elif event == "late":
            client.late = True
        elif event == "crowded":
            client.crowded = record["crowded"]
            client.late = client.late and client.crowded

    def _rejoin(self, record: Record, client: _Client) -> None:
        if not client.lost:
            self._wrong(record, f"client {record['client']} came back without having been lost")
        self._clients[record["client"]] = _Client(
            client.card, record["held"], record["idle"], client.needs
        )
        self._totals[client.card] = record["total"]
        self._foreign[client.card] = record["foreign"]

    def _turn(self, record: Record, client: _Client) -> None:
        number = record["client"]
        self.summary.turns += 1
        if client.asked is None or client.began is not None or client.lost:
            self._wrong(record, f"client {number} was given a turn that it could not use")
        self._in_time(record, record["client"], client)
        others = [
            one for one in self._clients.values() if one.card == client.card and one is not client
        ]
        running = [one for one in others if one.running]
        if running:
            taken = client.most + sum(max(one.held, one.most) for one in running)
            taken += sum(one.held for one in others if one not in running)
            taken += self._foreign[client.card]
            if taken > self._totals[client.card]:
                self._wrong(
                    record,
                    f"{len(running) + 1} turns at once, which take {taken} bytes of "
                    f"{self._totals[client.card]}",
                )
        for one in others:
            keeps = one.lost or (one.idle > 0 and one.began is None and one.crowded)
            if keeps and client.crowded and not one.late:
                self._wrong(record, f"client {number} began while another kept {one.held} bytes")
        client.asked, client.began, client.late = None, record["t"], False

    def _in_time(self, record: Record, number: int, client: _Client) -> None:
        if client.asked is None or record["t"] <= client.asked + self._patience + self._slack:
            return
        waited = record["t"] - client.asked
        self._wrong(
            record,
            f"client {number} has waited for {waited:.3f} s, longer than the {self._patience:g} s "
            "that it was promised",
        )
        client.asked = None if record.get("client") != number else client.asked


def check(path: Path, *, slack: float = 1.0) -> LogSummary:
    """Read a broker's log from a file, and return the summary.

    Args:
        path: path of the log.
        slack: seconds by which an answer may be later than promised.
    """
    records = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return Oracle(slack).read(records)
