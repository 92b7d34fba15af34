"""Brokers on a tree that send filters to each other, one message at a time: slow, and obviously right."""

from overlace.matching.content.filters import covers, intersects, matches


class Brokers:
    """Brokers with their routing tables: (direction, filter) rows; a direction is a neighbour, or a client's number."""

    def __init__(self, brokers, links, covering, advertised):
        self.near = {b: sorted({x for pair in links for x in pair if b in pair and x != b}) for b in range(brokers)}
        self.covering, self.use = covering, advertised
        self.rows = {b: [] for b in range(brokers)}  # (from, filter, subscription)
        self.ads = {b: [] for b in range(brokers)}  # (from, filter)
        self.sent = {(b, n): [] for b in self.near for n in self.near[b]}
        self.control = self.announced = 0

    def advertise(self, broker, filter, came=None):
        self.ads[broker].append((came, filter))
        for n in self.near[broker]:
            if n != came:
                self.announced += 1
                self.advertise(n, filter, broker)

    def subscribe(self, broker, number, filter, came=None):
        self.rows[broker].append((came, filter, number))
        for n in self.near[broker]:
            if n == came:
                continue
            if self.use and not any(way == n and intersects(ad, filter) for way, ad in self.ads[broker]):
                continue
            if self.covering and any(covers(other, filter) for other in self.sent[broker, n]):
                continue
            self.sent[broker, n].append(filter)
            self.control += 1
            self.subscribe(n, number, filter, broker)

    def prune(self):
        """Drop rows that a wider filter from the same neighbour makes needless, of equal ones the later."""
        for broker, rows in self.rows.items():
            kept = []
            for way, filter, number in rows:
                others = [row for row in rows if row[0] == way and row[2] != number and way is not None]
                if not any(
                    covers(other, filter) and (not covers(filter, other) or n < number) for _, other, n in others
                ):
                    kept.append((way, filter, number))
            self.rows[broker] = kept

    def publish(self, broker, message, came=None):
        """(subscriptions reached, links crossed)."""
        reached, crossed = set(), 0
        for way in {way for way, filter, _ in self.rows[broker] if matches(message, filter)}:
            if way is None:
                local = [(f, n) for w, f, n in self.rows[broker] if w is None]
                reached |= {number for filter, number in local if matches(message, filter)}
            elif way != came:
                more, links = self.publish(way, message, broker)
                reached |= more
                crossed += 1 + links
        return reached, crossed


def roots(there):
    """Of (number, filter) those that no other stands in for."""
    return {
        number
        for number, filter in there
        if not any(
            covers(other, filter) and (not covers(filter, other) or n < number) for n, other in there if n != number
        )
    }


def path(links, left, right, seen=()):
    """The links between two brokers of a tree."""
    if left == right:
        return []
    for a, b in links:
        for x, y in ((a, b), (b, a)):
            if x == left and y not in seen:
                rest = path(links, y, right, (*seen, left))
                if rest is not None:
                    return [(min(a, b), max(a, b)), *rest]
    return None
