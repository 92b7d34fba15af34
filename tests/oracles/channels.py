"""PART10's algorithms word for word, on sets, with every publisher on its own: slow and plain."""

from functools import cache
from itertools import count


@cache
def offer(mask):
    return frozenset(s for s in range(1, mask + 1) if s & mask == s)


class Literal:
    """Channels by id, as sets of combinations; publishers as (mask, limit). An id stays with the larger part."""

    def __init__(self):
        self.channels = {}
        self.publishers = []
        self.ids = count()

    def connections(self, mask):
        return sum(bool(held & offer(mask)) for held in self.channels.values())

    def free(self, publisher):
        return publisher[1] - self.connections(publisher[0])

    def connected(self, c):
        return [p for p in self.publishers if self.channels[c] & offer(p[0])]

    def offering(self, combination):
        return [p for p in self.publishers if combination in offer(p[0])]

    def create(self, held):
        self.channels[next(self.ids)] = set(held)

    def split(self, c, part):
        rest = self.channels[c] - part
        keeps = part if (len(part), -min(part)) > (len(rest), -min(rest)) else rest
        self.channels[c] = set(keeps)
        self.create(part if keeps is rest else rest)

    def create_and_merge(self, left, others):
        if not others:
            return self.create(left)
        keeps = max(others, key=lambda c: (len(self.channels[c]), -min(self.channels[c])))
        for c in others:
            if c != keeps:
                self.channels[keeps] |= self.channels.pop(c)
        self.channels[keeps] |= left
        return None

    def descending(self, mask, ties="oldest"):
        def tie(c):
            if ties == "least":
                return min(self.channels[c] & offer(mask), default=0)
            return c if ties == "oldest" else -c

        return sorted(self.channels, key=lambda c: (-len(self.channels[c]), tie(c)))

    def partition(self):
        return {frozenset(held) for held in self.channels.values()}

    def leave(self, publisher):
        self.publishers.remove(publisher)
        offered = set().union(*(offer(mask) for mask, _ in self.publishers))
        self.channels = {c: held & offered for c, held in self.channels.items() if held & offered}

    def join1(self, publisher, order):
        left = set(offer(publisher[0]))
        for c in order:
            held = set(self.channels[c])
            if left & held:
                if not held <= left:
                    self.split(c, left & held)
                left -= held
                if not left:
                    break
        if left:
            self.create(left)
        self.publishers.append(publisher)

    def join2(self, publisher, order):
        left = set(offer(publisher[0]))
        to_merge = []
        for c in order:
            held = self.channels[c]
            if left & held:
                if held <= left:
                    to_merge.append(c)
                else:
                    left -= held
                if not left:
                    break
        if left:
            self.create_and_merge(left, to_merge)
        self.publishers.append(publisher)

    def join3(self, publisher, order):
        left, free = set(offer(publisher[0])), publisher[1]
        included, overlapping = [], []
        for c in order:
            common = left & self.channels[c]
            if not common:
                continue
            if self.channels[c] <= left:
                included.append(c)
            elif free > 1:
                if min(map(self.free, self.connected(c))) > 0:
                    self.split(c, common)
                left -= common
                free -= 1
            else:
                overlapping.append(c)
        while included and free > 1:
            left -= self.channels[included.pop(0)]
            free -= 1
        if left:
            self.create_and_merge(left, included + overlapping)
        self.publishers.append(publisher)

    def join31(self, publisher, order):
        left, free = set(offer(publisher[0])), publisher[1]
        included, overlapping = [], []
        for c in order:
            common = left & self.channels[c]
            if not common:
                continue
            if self.channels[c] <= left:
                included.append(c)
            elif free > 1:
                loose = {a for a in common if all(self.free(p) > 0 for p in self.offering(a))}
                if loose == common:
                    self.split(c, common)
                    free -= 1
                else:
                    if free > 2 and loose:
                        self.split(c, loose)
                        free -= 1
                    free -= 1
                left -= common
            else:
                overlapping.append(c)
        while included and free > 1:
            left -= self.channels[included.pop(0)]
            free -= 1
        if left:
            self.create_and_merge(left, included + overlapping)
        self.publishers.append(publisher)


def partitions(items):
    """All ways to cut a list into sets."""
    if not items:
        yield []
        return
    first, *others = items
    for cut in partitions(others):
        yield [[first], *cut]
        for i in range(len(cut)):
            yield [*cut[:i], [first, *cut[i]], *cut[i + 1 :]]
