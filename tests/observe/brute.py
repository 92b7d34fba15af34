"""Observing by hand: plain Python over plain messages, as an oracle."""

from collections import Counter


def observed(messages):
    """(flows, classes, sent) of dicts with client, receivers, bytes, weight: names, no ids."""
    flows, classes, sent = Counter(), Counter(), Counter()
    for each in messages:
        weight, size = each.get("weight", 1), each.get("bytes") or 0
        sent[each["client"]] += weight
        others = set(each["receivers"]) - {each["client"]}
        for receiver in others:
            flows[each["client"], receiver] += weight
            flows[each["client"], receiver, "bytes"] += weight * size
        if others:
            classes[frozenset({each["client"], *others})] += weight
    return flows, classes, sent


def of_observation(observation, names):
    """The same three from an observation, by name."""
    name = names["client"]
    f, c = observation.flows, observation.classes
    flows = Counter()
    for a, b, n, size in zip(f.sender, f.receiver, f.messages, f.bytes, strict=True):
        flows[name[a], name[b]] = int(n)
        flows[name[a], name[b], "bytes"] = int(size)
    classes = Counter()
    for k in range(len(c)):
        members = frozenset(name[m] for m in c.members[c.start[k] : c.start[k + 1]])
        assert members not in classes
        classes[members] = int(c.demand[k])
    sent = Counter({name[i]: int(n) for i, n in enumerate(observation.sent) if n})
    return +flows, classes, sent
