"""Reference values of the normal, t and chi-square distributions for src/stats/distributions.test.ts.

    pip install scipy && python scripts/golden/distributions.py > src/stats/fixtures/distributions.json
"""

import json

from scipy import stats

T_DF = [1, 1.5, 2, 3, 4, 8, 29, 119, 1000]
CHI_DF = [1, 2, 4, 8, 29, 299]
X = [-40, -8, -4.30265273, -1.96, -0.5, -1e-6, 0, 0.1, 1, 2.5, 6, 30]
P = [1e-6, 0.001, 0.025, 0.2, 0.5, 0.8, 0.95, 0.975, 0.9995, 0.999999]

print(
    json.dumps(
        {
            "normalCdf": [[x, stats.norm.cdf(x)] for x in X if x > -35],
            "normalQuantile": [[p, stats.norm.ppf(p)] for p in P],
            "tCdf": [[x, df, stats.t.cdf(x, df)] for df in T_DF for x in X],
            "tQuantile": [[p, df, stats.t.ppf(p, df)] for df in T_DF for p in P],
            "chiSquareUpper": [[x, df, stats.chi2.sf(x, df)] for df in CHI_DF for x in X if x > 0],
            "chiSquareQuantile": [[p, df, stats.chi2.ppf(p, df)] for df in CHI_DF for p in P],
        }
    )
)
