"""Reference values for src/stats: the normal, t and chi-square distributions, and the generalised p-value of
src/stats/interval.ts by adaptive quadrature.

    pip install scipy && python test/golden/distributions.py > src/stats/fixtures/distributions.json
"""

import json

import numpy as np
from scipy import integrate, stats

T_DF = [1, 1.5, 2, 3, 4, 8, 29, 119, 1000]
CHI_DF = [1, 2, 4, 8, 29, 299]
X = [-40, -8, -4.30265273, -1.96, -0.5, -1e-6, 0, 0.1, 1, 2.5, 6, 30]
P = [1e-6, 0.001, 0.025, 0.2, 0.5, 0.8, 0.95, 0.975, 0.9995, 0.999999]



def p_value(delta, problems, problem_df, seeds, floor, seed_df):
    """Mean over X ~ chi-square of the two-sided t tail at delta, with the variance that X leaves the seeds."""

    def tail(x):
        total = problems + max(0.0, seeds * seed_df / x - floor)
        df = problem_df * (total / problems) ** 2
        return 2 * stats.t.sf(delta / np.sqrt(total), df) * stats.chi2.pdf(x, seed_df)

    kink = seeds * seed_df / floor if floor > 0 else np.inf
    ends = sorted({0.0, *(e for e in (0.01, 0.1, 1.0, kink, 10.0, 100.0) if e < 300), 300.0})
    return sum(integrate.quad(tail, a, b, epsabs=1e-11, limit=400)[0] for a, b in zip(ends, ends[1:]))


GENERALISED = [
    [0.03, 4e-4, 119, 3e-4, 4e-4, 2],
    [0.08, 4e-4, 119, 3e-4, 2e-4, 2],
    [0.08, 1e-3, 29, 2e-3, 1e-3, 2],
    [0.05, 2e-4, 299, 1e-3, 1e-4, 4],
    [0.04, 2e-4, 299, 5e-5, 1e-4, 8],
    [0.1, 3e-3, 29, 0.0, 1e-3, 4],
    [0.02, 1e-5, 59, 4e-4, 1e-5, 8],
]

print(
    json.dumps(
        {
            "normalCdf": [[x, stats.norm.cdf(x)] for x in X if x > -35],
            "normalQuantile": [[p, stats.norm.ppf(p)] for p in P],
            "generalised": [[*row, p_value(*row)] for row in GENERALISED],
            "tCdf": [[x, df, stats.t.cdf(x, df)] for df in T_DF for x in X],
            "tQuantile": [[p, df, stats.t.ppf(p, df)] for df in T_DF for p in P],
            "chiSquareQuantile": [[p, df, stats.chi2.ppf(p, df)] for df in CHI_DF for p in P],
        }
    )
)
