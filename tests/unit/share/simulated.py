"""Programs that share a card in simulated time, and ask, work, hang and die at random."""

import heapq
import itertools
import random

from pgmo.share.member import Member
from pgmo.share.schedule import Rules, TurnSchedule
from tests.unit.share.oracle import Oracle

MIB = 1 << 20
TOTAL = 1000 * MIB


class World:
    """A schedule, programs that follow it as clients do, and the log of events.

    Args:
        seed: seed of all random numbers.
        rules: rules of the schedule.
        harm: share of turns in which a program hangs, dies or loses its connection.
        make: makes a schedule of a card and rules.
    """

    def __init__(self, seed, rules, harm=0.0, make=TurnSchedule):
        self.random = random.Random(seed)
        self.rules, self.harm = rules, harm
        self.schedule = make("GPU-1", rules)
        self.now = 0.0
        self.numbers = itertools.count(1)
        self.order = itertools.count()
        self.queue = []
        self.programs = {}
        begin = {"event": "begin", "pid": 1, "patience": rules.patience}
        self.log = [{"n": 1, "t": 0.0, **begin}]

    def at(self, seconds, call, *arguments):
        heapq.heappush(self.queue, (self.now + seconds, next(self.order), call, arguments))

    def run(self, until):
        while True:
            tick = self.schedule.next_tick()
            event = self.queue[0][0] if self.queue else None
            if min((one for one in (tick, event) if one is not None), default=until) >= until:
                break
            if event is None or (tick is not None and tick <= event):
                self.now = max(self.now, tick)
                self.deliver(self.schedule.tick(self.now))
            else:
                self.now, _, call, arguments = heapq.heappop(self.queue)
                call(*arguments)
        self.now = until

    def deliver(self, records):
        for record in records:
            self.log.append({"n": len(self.log) + 1, "t": self.now, **record})
            program = self.programs.get(record.get("to"))
            if program is not None:
                program.receive(record)

    def summary(self):
        return Oracle().read(self.log)


class Program:
    """A training program: a turn, a pause, and so on."""

    def __init__(self, world, lasting, need, seconds=1.0, pause=0.1, priority=0):
        self.world, self.lasting, self.need = world, lasting, need
        self.seconds, self.pause = seconds, pause
        self.number = next(world.numbers)
        self.idle, self.crowded, self.in_turn, self.hung = 0, False, False, False
        self.connected = True
        self.turns = self.passes = 0
        world.programs[self.number] = self
        member = Member(self.number, self.number, "p", priority, lasting, 0, world.now)
        free = TOTAL - sum(one.holds for one in world.programs.values())
        world.deliver(world.schedule.join(member, TOTAL, max(0, free)))
        world.at(world.random.random(), self.ask)

    @property
    def holds(self):
        return self.lasting + (self.need if self.in_turn else self.idle)

    @property
    def free(self):
        return max(0, TOTAL - sum(one.holds for one in self.world.programs.values()))

    @property
    def there(self):
        return self.number in self.world.programs

    def ask(self):
        if self.there and not self.hung:
            self.world.deliver(self.world.schedule.ask(self.number, self.world.now))

    def receive(self, record):
        world = self.world
        if record["event"] == "crowded":
            self.crowded = record["crowded"]
            if self.crowded and not self.in_turn and not self.hung:
                world.at(world.random.choice([0.01, 2.0]), self.release)
        elif record["event"] == "pass":
            self.passes += 1
            world.at(self.pause, self.ask)
        elif record["event"] == "turn":
            self.in_turn = True
            self.turns += 1
            if world.random.random() < world.harm:
                world.at(
                    world.random.random(), world.random.choice([self.hang, self.die, self.drop])
                )
            else:
                world.at(self.seconds, self.give)

    def release(self):
        if self.there and self.connected and not self.in_turn and not self.hung and self.idle:
            self.idle = 0
            sizes = {"held": self.holds, "idle": 0, "free": self.free}
            self.world.deliver(self.world.schedule.released(self.number, self.world.now, **sizes))

    def give(self):
        if not self.there or self.hung:
            return
        self.in_turn = False
        self.idle = 0 if self.crowded else self.need
        sizes = {"held": self.holds, "idle": self.idle, "free": self.free, "need": self.need}
        self.world.deliver(self.world.schedule.give(self.number, self.world.now, **sizes))
        self.world.at(self.pause, self.ask)

    def hang(self):
        self.hung = True
        self.world.at(self.world.random.uniform(1, 100), self.die)

    def die(self):
        if self.there:
            del self.world.programs[self.number]
            self.world.deliver(self.world.schedule.lose(self.number, self.world.now))
            self.world.at(self.world.random.random(), self.gone)

    def drop(self):
        """Lose the connection in a turn, and connect again within 10 s."""
        if self.there and not self.hung and self.in_turn:
            self.world.deliver(self.world.schedule.lose(self.number, self.world.now))
            self.in_turn, self.idle, self.connected = False, self.need, False
            self.world.at(self.world.random.uniform(0, 10), self.connect_again)

    def connect_again(self):
        world = self.world
        if self.there:
            self.crowded, self.connected = False, True
            fresh = Member(-1, self.number, "p", 0, self.holds, self.idle, world.now)
            world.deliver(world.schedule.rejoin(self.number, fresh, TOTAL, self.free))
            world.at(self.pause, self.ask)

    def gone(self):
        self.world.deliver(self.world.schedule.leave(self.number, self.world.now))


def busy_world(seed, make=TurnSchedule):
    """Return a world after 300 s, with up to 6 programs of random sizes that come and end."""
    chance = random.Random(seed)
    rules = Rules(
        deadline=5.0, patience=chance.choice([8.0, 40.0]), lanes=chance.choice([1, 2, 64])
    )
    world = World(seed, rules, harm=0.05, make=make)

    def arrive():
        if len(world.programs) < 6:
            size = chance.choice([50, 200, 600])
            Program(
                world,
                chance.randint(1, 120) * MIB,
                chance.randint(1, size) * MIB,
                chance.choice([0.1, 1.0, 3.0]),
                chance.choice([0.0, 0.1, 20.0]),
                chance.randint(-1, 1),
            )
        world.at(chance.expovariate(0.2), arrive)

    arrive()
    world.run(300.0)
    return world
