# Components of variance with 95 % intervals (numpy 1.24, scipy 1.10): python3 components.py > components.json
# Each CSV file has one line a build of the same source, with the processor times of its runs in nanoseconds.
import json
import numpy as np
from scipy import stats

found = {}
for name in ['vm', 'words', 'rs', 'rsf', 'rsb']:
    x = np.log(np.loadtxt(name + '.csv', delimiter=','))
    n, r = x.shape
    middle = np.median(x, 1)[:, None]
    w = 1.4826 * np.median(np.abs(x - middle))
    y = np.clip(x, middle - 4 * w, middle + 4 * w)
    between, within = r * np.var(y.mean(1), ddof=1), np.mean(np.var(y, 1, ddof=1))

    def end(p):
        f, c = stats.f.ppf(p, n - 1, n * (r - 1)), stats.chi2.ppf(p, n - 1)
        return max(0, (n - 1) * (between - f * within) / (r * c)) ** .5

    found[name] = dict(builds=n, between=max(0, (between - within) / r) ** .5, within=within ** .5, low=end(.975), high=end(.025))
print(json.dumps(found, indent=1))
