"""A load of plain nats-py clients, which know nothing of Overlace, and the tally of what they published."""

import asyncio
import random
import time
from collections import Counter, defaultdict
from contextlib import AsyncExitStack, asynccontextmanager

import nats

from overlace.live.counters import UNHEARD
from overlace.live.ledger import covers, topic_of
from tests.live.servers import PATIENCE, until


@asynccontextmanager
async def connected(deployment, name, broker):
    """A client of nats-py, as any application has one."""
    who = deployment.login("clients", 0)
    address = f"nats://{deployment.client_address(broker)}"
    client = await nats.connect(address, name=name, user=who.user, password=who.password, max_reconnect_attempts=1)
    try:
        yield client
    finally:
        await client.close()


class PlainLoad:
    """Publishers with Zipf rates and a few subjects each; wildcards, queue groups, requests, and what nobody wants."""

    def __init__(self, deployment, clients=40, topics=24, rate=300.0, seed=0):
        self.deployment, self.rng = deployment, random.Random(seed)
        rng, brokers = self.rng, list(deployment.brokers)
        self.homes = {f"client {i}": rng.choice(brokers) for i in range(clients)}
        names = list(self.homes)
        weights = [1 / (i + 1) ** 0.8 for i in range(clients)]
        rng.shuffle(weights)
        self.rates = {name: rate * w / sum(weights) for name, w in zip(names, weights, strict=True)}
        subjects = [f"fab.{i % 4}.{i}" for i in range(topics)]
        self.filters = defaultdict(list)
        for subject in subjects:
            for name in rng.sample(names, 2):
                self.filters[name].append((subject, ""))
        self.filters[rng.choice(names)].append(("fab.0.>", ""))
        for name in rng.sample(names, 3):
            self.filters[name].append(("jobs", "workers"))
        self.answers = rng.choice(names)
        self.filters[self.answers].append(("ask", ""))
        self.asks = set(rng.sample([name for name in names if name != self.answers], min(3, clients - 1)))
        self.publishes = {}
        for name in names:
            mine = rng.sample([*subjects, "jobs", "fab.0.extra", "nobody.wants.it"], rng.randint(1, 3))
            self.publishes[name] = [(each, 0.1 + rng.random()) for each in mine]
            if name in self.asks:
                self.publishes[name].append(("ask", 0.5))
        self.sent, self.clients, self.waiting = Counter(), {}, set()
        self.expected, self.received = 0, 0
        self.pairs = []

    def pair_up(self, pairs=10):
        """Let the second of each two clients publish whenever the first does, from the same broker."""
        free = [name for name in self.homes if name not in self.asks]
        self.pairs = list(zip(free[:pairs], free[pairs : 2 * pairs], strict=True))
        for first, second in self.pairs:
            self.homes[second] = self.homes[first]

    def deliveries(self, subject):
        """How many times a message is delivered."""
        held = [each for held in self.filters.values() for each in held if covers(each[0], subject)]
        return sum(not group for _, group in held) + len({each for each in held if each[1]})

    def topic(self, subject):
        """The topic that an estimate gives a subject: the narrowest filter that covers it."""
        every = {wanted for held in self.filters.values() for wanted, _ in held}
        found = [each for each in every if covers(each, subject)]
        return min(found, key=lambda each: sum(covers(each, other) for other in found)) if found else UNHEARD

    @asynccontextmanager
    async def connect(self):
        """All clients, each at home, subscribed, and known to all brokers."""
        async with AsyncExitStack() as stack:
            for name, broker in self.homes.items():
                self.clients[name] = await stack.enter_async_context(connected(self.deployment, name, broker))
            ready = await self._subscribe()
            await self._await_interest(ready)
            for name in self.asks:
                await self._ask(name)
            self.sent.clear()
            yield self

    async def _subscribe(self):
        seen, last = defaultdict(set), []
        for name, client in self.clients.items():
            for wanted, group in self.filters[name]:
                await client.subscribe(wanted, queue=group, cb=self._answer if wanted == "ask" else self._take)

            async def note(message, name=name):
                seen[name].add(message.subject)

            last.append(await client.subscribe("ready.*", cb=note))
        return seen, last

    async def _await_interest(self, ready):
        """Wait until a message from every broker reaches everybody: filters that were there before it do, too."""
        seen, last = ready
        first = {}
        for name, broker in self.homes.items():
            first.setdefault(broker, self.clients[name])
        wanted = {f"ready.{broker}" for broker in first}
        deadline = time.monotonic() + PATIENCE
        while any(seen[name] != wanted for name in self.clients):
            if time.monotonic() > deadline:
                raise TimeoutError("not everybody was reached")
            for broker, client in first.items():
                await client.publish(f"ready.{broker}")
                await client.flush()
            await asyncio.sleep(0.02)
        for each in last:
            await each.unsubscribe()

    async def _answer(self, message):
        if message.reply:
            self.sent[self.answers, topic_of(message.reply)] += 1
            await message.respond(b"yes")

    async def _ask(self, name):
        self.sent[name, "ask"] += 1
        await self.clients[name].request("ask", b"x" * 20, timeout=PATIENCE)

    async def run(self, seconds):
        """Publish for a while, each at random moments; all has arrived at the end."""
        begun = time.monotonic()
        second_of = dict(self.pairs)
        together = [(name, *([second_of[name]] if name in second_of else [])) for name in self.clients]
        following = set(second_of.values())
        await asyncio.gather(*(self._publish(each, begun + seconds) for each in together if each[0] not in following))
        await asyncio.gather(*self.waiting)
        for client in self.clients.values():
            await client.flush()
        await until(lambda: self.received == self.expected, "everything is delivered")

    async def _publish(self, names, end):
        following = time.monotonic()
        while (following := following + self.rng.expovariate(self.rates[names[0]])) < end:
            await asyncio.sleep(max(0.0, following - time.monotonic()))
            for name in names:
                await self._publish_one(name)

    async def _publish_one(self, name):
        subjects, weights = zip(*self.publishes[name], strict=True)
        subject = self.rng.choices(subjects, weights)[0]
        if subject == "ask":
            task = asyncio.ensure_future(self._ask(name))
            self.waiting.add(task)
            task.add_done_callback(self.waiting.discard)
            return
        self.sent[name, self.topic(subject)] += 1
        self.expected += self.deliveries(subject)
        await self.clients[name].publish(subject, b"x" * 20)

    async def _take(self, message):
        self.received += 1


def found_of(result):
    """What an estimate says, by client and topic."""
    found = Counter()
    for client, topic, messages in zip(result.client, result.topic, result.messages.tolist(), strict=True):
        found[client, topic] += messages
    return found


def wrong_share(found, true):
    """The share of the messages that somebody received that are at a wrong publisher."""
    keys = {key for key in found | true if key[1] != UNHEARD}
    return sum(abs(found[key] - true[key]) for key in keys) / 2 / max(1, sum(true[key] for key in keys))


def in_proportion(true):
    """Shares in proportion: every topic by what clients sent in all."""
    sent, got = Counter(), Counter()
    for (client, topic), messages in true.items():
        sent[client] += messages
        if topic != UNHEARD:
            got[topic] += messages
    return Counter({(c, t): sent[c] * got[t] / sent.total() for c in sent for t in got})
