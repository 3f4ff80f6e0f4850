"""Change points by ruptures (PELT, CostNormal), an independent implementation: change-points.json beside this file.

    python3 -m venv v && v/bin/pip install ruptures && v/bin/python change-points.py
"""
import json
import math
import os

import numpy as np
import ruptures

random = np.random.default_rng(20260)
rows = []
for number in range(60):
    count = int(random.integers(40, 300))
    shortest = 5 if number % 3 else 2
    values = random.normal(1, 0.02, count)
    for _ in range(number % 5):
        at = int(random.integers(5, count - 5))
        kind = random.integers(3)
        if kind == 0:
            values[at:] += random.choice([-0.1, 0.05, 0.3])
        elif kind == 1:
            values[at:] = 1 + (values[at:] - 1) * random.choice([0.2, 4])
        else:
            values[at:] *= random.choice([0.8, 1.02, 1.5])
    values = np.array([float("%.9g" % value) for value in values])
    # Half of the series with a small penalty, so that there are many change points.
    penalty = 15 * math.log(count) if number % 2 else 3 * math.log(count)
    cost = ruptures.costs.CostNormal(add_small_diag=False)
    search = ruptures.Pelt(custom_cost=cost, min_size=shortest, jump=1).fit(values.reshape(-1, 1))
    ends = [int(end) for end in search.predict(pen=penalty)]
    rows.append({"penalty": penalty, "shortest": shortest, "values": values.tolist(), "ends": ends})

folder = os.path.dirname(os.path.abspath(__file__))
with open(os.path.join(folder, "change-points.json"), "w") as file:
    lines = ",\n".join(json.dumps(row) for row in rows)
    file.write('{"ruptures": "%s", "rows": [\n%s\n]}\n' % (ruptures.__version__, lines))
