"""Classes of series by a second implementation, in numpy: fills in what `classes.json` beside this file expects.

    python3 -m venv v && v/bin/pip install numpy && v/bin/python classes.py

The series are ten that were made with a known truth, and five that were recorded on a busy machine (dictionary loop of
Python, fannkuch in Node.js and in Java, strings in Java, maps in Erlang). `warmup_stats` is the rule of
softdevteam/warmup_stats, `mark_changepoints_in_json`, written from its description in the paper and in its source.
"""
import json
import math
import os

import numpy as np

FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "classes.json")


def segments(values, penalty, shortest):
    """PELT with the cost of normal values of unknown mean and variance."""
    n = len(values)
    sums, squares = (np.concatenate([[0], np.cumsum(values**power)]) for power in (1, 2))

    def cost(begin, end):
        m = end - begin
        variance = (squares[end] - squares[begin] - (sums[end] - sums[begin]) ** 2 / m) / m
        return m * (math.log(2 * math.pi) + np.log(np.where(variance <= 0, 1e-11, variance)) + 1)

    best, last, places = np.full(n + 1, np.inf), np.zeros(n + 1, int), np.array([0])
    best[0] = -penalty
    for end in range(shortest, n + 1):
        ripe = places[places <= end - shortest]
        costs = best[ripe] + cost(ripe, end) + penalty
        at = int(np.argmin(costs))
        best[end], last[end] = costs[at], ripe[at]
        kept = ripe[costs - penalty <= best[end]]
        places = np.concatenate([kept, places[places > end - shortest], [end - shortest + 1]])
    ends = []
    while n > 0:
        ends.append(n)
        n = last[n]
    return [int(end) for end in reversed(ends)]


def native(times, delta=0.02, steady=0.25):
    raw = np.log(times)
    logs, spikes = raw.copy(), []
    for at in range(len(raw)):
        near = raw[max(0, at - 5) : at + 6]
        middle = np.median(near)
        if abs(raw[at] - middle) > max(0.05, 6 * 1.4826 * np.median(np.abs(near - middle))):
            logs[at] = middle
            spikes.append(at)
    n, noise = len(logs), 1.4826 * np.median(np.abs(np.diff(logs))) / math.sqrt(2)
    logs = np.clip(logs, np.median(logs) - 5, np.median(logs) + 5)
    levels, begin = [], 0
    for end in segments(logs - np.median(logs), 15 * math.log(n), 5):
        level = [begin, end, np.median(logs[begin:end])]
        if levels and abs(levels[-1][2] - level[2]) <= math.log1p(delta):
            levels[-1][1] = end
            levels[-1][2] = np.median(logs[levels[-1][0] : end])
        else:
            levels.append(level)
        begin = end
    late = [level for level in levels if level[1] > n / 4]
    middle = (max(level[2] for level in late) + min(level[2] for level in late)) / 2
    sides = [level[2] > middle for level in late]
    crossings = sum(one != next for one, next in zip(sides, sides[1:]))
    first = levels[-1][0]
    if noise > 0.10:
        name = "unclear"
    elif len(levels) == 1:
        name = "flat"
    elif crossings >= 4:
        name = "cyclic"
    elif n - first < steady * n:
        name = "no steady state"
    else:
        name = "warm-up" if levels[-2][2] > levels[-1][2] else "slow-down"
    return {"class": name, "starts": [level[0] for level in levels], "spikes": spikes, "noise": float(noise),
            "level_s": float(math.exp(levels[-1][2]))}


def warmup_stats(times, delta):
    outliers = []
    for at in range(len(times)):
        begin, end = max(0, at - 100), min(len(times), at + 100)
        if begin == 0 and end < 200:
            continue
        near = times[begin:end]
        reach = 3 * (np.percentile(near, 90) - np.percentile(near, 10))
        if abs(times[at] - np.median(near)) > reach:
            outliers.append(at)
    kept = np.array([at for at in range(len(times)) if at not in set(outliers)])
    values = times[kept]
    ends = segments(values, 15 * math.log(len(values)), 2)
    parts, begin = [], 0
    for end in ends:
        parts.append((end, values[begin:end].mean(), values[begin:end].var()))
        begin = end
    delta = delta.get("seconds", delta.get("share", 0) * min(mean for _, mean, _ in parts))
    _, mean, variance = parts[-1]
    low, high = min(mean - variance, mean - delta), max(mean + variance, mean + delta)
    name, steady_from = "flat", 0
    for end, own, spread in reversed(parts[:-1]):
        if own + spread >= low and own - spread <= high:
            continue
        steady_from = int(kept[end - 1]) + 1
        if kept[end - 1] > len(times) - len(times) // 4:
            name = "no steady state"
        else:
            name = "slow-down" if own - spread < low else "warm-up"
        break
    return {"class": name, "outliers": outliers, "change_points": ends[:-1], "steady_from": steady_from,
            "level_s": float(mean)}


rows = json.load(open(FILE))
for row in rows:
    times = np.array(row["series_s"])
    row["native"] = native(times)
    row["warmup_stats"] = warmup_stats(times, row["delta"])
with open(FILE, "w") as file:
    file.write("[" + ",\n".join(json.dumps(row) for row in rows) + "]\n")
