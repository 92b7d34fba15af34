"""Local search on what a placement really costs, under its caps: re-home a client, or let two trade homes.

`improve` goes over all clients until nobody can save anything, `anneal` takes worse steps too, fewer and fewer
(simulated annealing). Both work out only what a move changes: the ties of one client.

Keeps: a sent load that is within its cap stays so, one above it never grows; what is handled above its cap is paid for,
in `improve` at a price that no saving is worth, in `anneal` at one that grows to where none is.
"""

from __future__ import annotations

import numpy as np

from overlace.arrays.csr import group
from overlace.arrays.hashing import mix
from overlace.arrays.jit import Floats, Ints, kernel
from overlace.planners.placement.problem import Problem, State, fits_sent, move, price, saving, tie_between

ALL_BROKERS = 128
"""Up to so many brokers all are looked at for each client; beyond, those where its partners are."""


@kernel
def handled_excess(problem: Problem, state: State) -> float:
    """By how much handled loads are above their caps, all together."""
    over = 0.0
    if len(problem.demand):
        for b in range(len(problem.region)):
            over += max(0.0, state.broker_handled[b] - problem.broker_handled[b])
        for r in range(len(problem.region_handled)):
            over += max(0.0, state.region_handled[r] - problem.region_handled[r])
    return over


@kernel
def allowed(problem: Problem, client: int, broker: int) -> bool:
    """Whether the client may be there at all, loads aside."""
    origin = problem.origin[client]
    if broker == origin:
        return True
    return bool(problem.may[broker] and not (problem.within and problem.region[broker] != problem.region[origin]))


@kernel
def fits_trade(problem: Problem, state: State, a: int, b: int) -> bool:
    """Whether two clients can trade homes: no sent load above its cap that was not at least as high before."""
    at, to = state.home[a], state.home[b]
    grows, where = problem.sent[a] - problem.sent[b], to
    if grows < 0:
        grows, where = -grows, at
    if grows == 0:
        return True
    if state.broker_sent[where] + grows > problem.broker_sent[where]:
        return False
    region = problem.region[where]
    return bool(
        problem.region[at] == problem.region[to] or state.region_sent[region] + grows <= problem.region_sent[region]
    )


@kernel
def trade_saving(problem: Problem, home: Ints, a: int, b: int) -> float:
    """What is saved when two clients trade homes."""
    at, to = home[a], home[b]
    both = saving(problem, home, a, to) + saving(problem, home, b, at)
    return both - 2 * tie_between(problem.ties, a, b) * float(problem.apart[at, to])


@kernel
def improve(problem: Problem, state: State, order: Ints, tries: int, passes: int, least: float, penalty: float) -> int:
    """Move and exchange clients while that saves more than `least`; returns how often."""
    brokers, ties = len(problem.region), problem.ties
    start, other, weight = ties.start, ties.other, ties.weight  # looked up once: this loop is where the time goes
    apart, region, may, within = problem.apart, problem.region, problem.may, problem.within
    access, any_cost, move_cost = problem.access, problem.any_cost, problem.move_cost
    home, sent_at, sent_in = state.home, state.broker_sent, state.region_sent
    most_at, most_in = problem.broker_sent, problem.region_sent
    pull = np.zeros(brokers)
    touched = np.empty(brokers, dtype=np.int64)
    done = 0
    for _ in range(passes):
        before = done
        first, member = group(state.home + 1, brokers + 1)
        for c in order:
            if not problem.movable[c]:
                continue
            at, known, origin = home[c], 0, problem.origin[c]
            for k in range(start[c], start[c + 1]):
                h = home[other[k]]
                if pull[h] == 0.0:
                    touched[known] = h
                    known += 1
                pull[h] += weight[k]
            here = price(problem, c, at)
            for i in range(known):
                here += pull[touched[i]] * apart[at, touched[i]]
            best, gain, wish, hoped = at, least, at, least
            row, amount, sent = problem.access_row[c], problem.amount[c], problem.sent[c]
            looked = brokers if brokers <= ALL_BROKERS else known + 1
            for j in range(looked):
                b = j if brokers <= ALL_BROKERS else (touched[j] if j < known else origin)
                if b == at or not (may[b] or b == origin) or (within and region[b] != region[origin]):
                    continue
                there = amount * access[row, b]
                if b != origin:
                    there += any_cost
                    if region[b] != region[origin]:
                        there += move_cost
                for i in range(known):
                    there += pull[touched[i]] * apart[b, touched[i]]
                saved = here - there
                if saved > hoped:
                    wish, hoped = b, saved
                if saved > gain and (
                    sent == 0
                    or (
                        sent_at[b] + sent <= most_at[b]
                        and (region[b] == region[at] or sent_in[region[b]] + sent <= most_in[region[b]])
                    )
                ):
                    best, gain = b, saved
            for i in range(known):
                pull[touched[i]] = 0.0
            if best != at:
                done += try_move(problem, state, c, best, gain, least, penalty)
            elif wish != at and tries > 0:
                done += try_trade(problem, state, c, wish, first, member, tries, least, penalty)
        if done == before:
            break
    return done


@kernel
def try_move(problem: Problem, state: State, c: int, to: int, gain: float, least: float, penalty: float) -> int:
    """Move a client unless what is then handled above the caps outweighs it; returns 1 if it moved."""
    at = state.home[c]
    over = handled_excess(problem, state)
    move(problem, state, c, to)
    if gain - penalty * (handled_excess(problem, state) - over) > least:
        return 1
    move(problem, state, c, at)
    return 0


@kernel
def try_trade(
    problem: Problem, state: State, c: int, to: int, first: Ints, member: Ints, tries: int, least: float, penalty: float
) -> int:
    """Trade homes with the client at `to` with whom that saves most; returns 1 if they did."""
    at, best, gain = state.home[c], -1, least
    low, high = first[to + 1], first[to + 2]
    step = max(1, (high - low) // tries)
    for k in range(low, high, step):
        x = member[k]
        if state.home[x] != to or not problem.movable[x] or not allowed(problem, x, at):
            continue
        saved = trade_saving(problem, state.home, c, x)
        if saved > gain and fits_trade(problem, state, c, x):
            best, gain = x, saved
    if best < 0:
        return 0
    over = handled_excess(problem, state)
    move(problem, state, c, to)
    move(problem, state, best, at)
    if gain - penalty * (handled_excess(problem, state) - over) > least:
        return 1
    move(problem, state, best, to)
    move(problem, state, c, at)
    return 0


@kernel
def repair(problem: Problem, state: State) -> None:
    """Move clients out of brokers and regions above their caps, those first whose leaving costs least."""
    n = len(state.home)
    for _ in range(2):
        loss = np.full(n, np.inf)
        target = np.full(n, -1, dtype=np.int64)
        for c in range(n):
            if problem.movable[c] and problem.sent[c] > 0 and crowded(problem, state, state.home[c]):
                target[c], loss[c] = best_fit(problem, state, c)
        for c in np.argsort(loss, kind="mergesort"):
            at = state.home[c]
            if target[c] < 0 or not crowded(problem, state, at):
                continue
            to, _ = best_fit(problem, state, c)
            if to >= 0:
                over = handled_excess(problem, state)
                move(problem, state, c, to)
                if handled_excess(problem, state) > over + 1e-9:
                    move(problem, state, c, at)


@kernel
def crowded(problem: Problem, state: State, broker: int) -> bool:
    """Whether the broker or its region is above its cap on what is sent."""
    region = problem.region[broker]
    return bool(
        state.broker_sent[broker] > problem.broker_sent[broker]
        or state.region_sent[region] > problem.region_sent[region]
    )


@kernel
def best_fit(problem: Problem, state: State, c: int) -> tuple[int, float]:
    """The broker other than its own where the client fits and loses least, and the loss per message sent."""
    best, loss, at = -1, np.inf, state.home[c]
    full = state.region_sent[problem.region[at]] > problem.region_sent[problem.region[at]]
    for b in range(len(problem.region)):
        if b == at or not problem.may[b] or not allowed(problem, c, b):
            continue
        if full and problem.region[b] == problem.region[at]:
            continue
        if fits_sent(problem, state, c, b):
            lost = -saving(problem, state.home, c, b)
            if lost < loss:
                best, loss = b, lost
    return best, loss / max(problem.sent[c], 1.0)


@kernel
def anneal(problem: Problem, state: State, seed: int, proposals: int, hot: float, cold: float, penalty: float) -> Ints:
    """The best homes on the way from hot to cold; the state is left at the last ones.

    `penalty` is the price of a message handled above a cap at the start; it grows as the heat falls, so that what is
    too much on the way is brought down to the caps by the end.
    """
    n, brokers, ties = len(state.home), len(problem.region), problem.ties
    start, other, weight, apart, region = ties.start, ties.other, ties.weight, problem.apart, problem.region
    home, sent_at, sent_in = state.home, state.broker_sent, state.region_sent
    most_at, most_in = problem.broker_sent, problem.region_sent
    who = np.flatnonzero(problem.movable)
    best = state.home.copy()
    if len(who) == 0:
        return best
    into = np.flatnonzero(problem.may)
    head = np.full(brokers, -1, dtype=np.int64)  # the clients of a broker, as a list in both directions
    after = np.full(n, -1, dtype=np.int64)
    before = np.full(n, -1, dtype=np.int64)
    for c in who:
        link(head, after, before, int(c), state.home[c])
    cool = (cold / hot) ** (1.0 / max(proposals, 1))
    heat, gone, lowest = hot, 0.0, 0.0
    over = handled_excess(problem, state)
    fewest = over
    random = mix(np.uint64(seed) ^ np.uint64(0x9E37))
    for _ in range(proposals):
        heat *= cool
        random = mix(random)
        c = who[np.int64(random % np.uint64(len(who)))]
        at = home[c]
        random = mix(random)
        degree = start[c + 1] - start[c]
        if degree and random & np.uint64(3):
            random = mix(random)
            to = home[other[start[c] + np.int64(random % np.uint64(degree))]]
        else:
            random = mix(random)
            to = into[np.int64(random % np.uint64(len(into)))]
        if to == at or not allowed(problem, c, to):
            continue
        random = mix(random)
        luck = (random >> np.uint64(11)) * 2.0**-53
        x = -1
        sent = problem.sent[c]
        if sent == 0 or (
            sent_at[to] + sent <= most_at[to]
            and (region[to] == region[at] or sent_in[region[to]] + sent <= most_in[region[to]])
        ):
            saved = price(problem, c, at) - price(problem, c, to)
            for k in range(start[c], start[c + 1]):
                h = home[other[k]]
                saved += weight[k] * (apart[at, h] - apart[to, h])
        else:
            random = mix(random)
            x = head[to]
            for _ in range(np.int64(random & np.uint64(15))):
                x = head[to] if x < 0 or after[x] < 0 else after[x]
            if x < 0 or not allowed(problem, x, at) or not fits_trade(problem, state, c, x):
                continue
            saved = trade_saving(problem, state.home, c, x)
        if over == 0.0 and saved <= 0 and luck >= np.exp(saved / heat):
            continue  # no load can fall that would pay for it
        move(problem, state, c, to)
        if x >= 0:
            move(problem, state, x, at)
        if len(problem.demand):
            there = handled_excess(problem, state)
            worth = saved - penalty * hot / heat * (there - over)
            if worth <= 0 and luck >= np.exp(worth / heat):
                if x >= 0:
                    move(problem, state, x, to)
                move(problem, state, c, at)
                continue
            over = there
        unlink(head, after, before, c, at)
        link(head, after, before, c, to)
        if x >= 0:
            unlink(head, after, before, x, to)
            link(head, after, before, x, at)
        gone -= saved
        if over < fewest - 1e-6 or (over <= fewest + 1e-6 and gone < lowest - 1e-9):
            fewest, lowest = over, gone
            best[:] = state.home
    return best


@kernel
def link(head: Ints, after: Ints, before: Ints, client: int, broker: int) -> None:
    """Put a client first in the list of a broker."""
    after[client] = head[broker]
    before[client] = -1
    if head[broker] >= 0:
        before[head[broker]] = client
    head[broker] = client


@kernel
def unlink(head: Ints, after: Ints, before: Ints, client: int, broker: int) -> None:
    """Take a client out of the list of a broker."""
    if before[client] >= 0:
        after[before[client]] = after[client]
    else:
        head[broker] = after[client]
    if after[client] >= 0:
        before[after[client]] = before[client]


@kernel
def packed(problem: Problem, community: Ints, by_load: Ints, member: Ints, first: Ints, room: Floats) -> Ints:
    """Communities to regions, the heaviest first: where most of each already is among those with room, else most room.

    Inside, a client goes where it costs least among the brokers with room; if none has any, to any other with room;
    if none has any at all, it stays. member[first[i]:first[i + 1]] are the clients of community i.
    """
    n, brokers = len(problem.origin), len(problem.region)
    home = problem.origin.copy()
    placed = ~problem.movable
    broker_sent, region_sent = np.zeros(brokers), np.zeros(len(room))
    for c in range(n):
        if placed[c] and home[c] >= 0:
            broker_sent[home[c]] += problem.sent[c]
            region_sent[problem.region[home[c]]] += problem.sent[c]
    ties = problem.ties
    at_start = np.zeros(len(room))
    for i in by_load:
        load = 0.0
        at_start[:] = 0.0
        for k in range(first[i], first[i + 1]):
            if problem.movable[member[k]]:
                load += problem.sent[member[k]]
                at_start[problem.region[problem.origin[member[k]]]] += 1
        goal = -1
        for r in range(len(room)):
            if room[r] > 0 and region_sent[r] + load <= room[r] and (goal < 0 or at_start[r] > at_start[goal]):
                goal = r
        if goal < 0:
            goal = int(np.argmax(room - region_sent))
        for k in range(first[i], first[i + 1]):
            c = member[k]
            if not problem.movable[c]:
                continue
            best, least, local = -1, np.inf, False
            for b in range(brokers):
                r = problem.region[b]
                if not problem.may[b] or (problem.within and r != problem.region[problem.origin[c]]):
                    continue
                sent = problem.sent[c]
                if broker_sent[b] + sent > problem.broker_sent[b] or region_sent[r] + sent > problem.region_sent[r]:
                    continue
                if local and r != goal:
                    continue
                lost = price(problem, c, b)
                for j in range(ties.start[c], ties.start[c + 1]):
                    if placed[ties.other[j]]:
                        lost += ties.weight[j] * problem.apart[b, home[ties.other[j]]]
                if (r == goal and not local) or lost < least:
                    best, least, local = b, lost, r == goal
            if best >= 0:
                home[c] = best
            placed[c] = True
            broker_sent[home[c]] += problem.sent[c]
            region_sent[problem.region[home[c]]] += problem.sent[c]
    return home
