"""The shared definitions - pass@k, pass^k, evaluation variance, noise band, hack scan, decontamination - as whileai
computes them on rows made here, for the tests that hold this project's own to them.

    pip install whileai && python test/golden/whileai_stats.py

Writes src/stats/fixtures/whileai.json and src/tasks/fixtures/whileai-decontaminate.json.
"""

import json
import pathlib
import random
import warnings

import whileai
import whileai.simulations as wai
from whileai.simulations.score.stats import noise_band

warnings.simplefilter("ignore")
rng = random.Random(20260923)
root = pathlib.Path(__file__).parents[2]


def rollouts(problems, least, most):
    """One row a rollout: problem, reward 0 or 1, each problem with a difficulty of its own."""
    rows = []
    for p in range(problems):
        chance = rng.random()
        for _ in range(rng.randint(least, most)):
            rows.append({"task_id": f"p{p}", "reward": int(rng.random() < chance)})
    return rows


def plain(rows):
    by_problem = {}
    for row in rows:
        by_problem.setdefault(row["task_id"], []).append(row["reward"])
    return by_problem


# pass@k and pass^k, even and uneven numbers of rollouts, several k
passes = []
for rows in (rollouts(25, 6, 6), rollouts(25, 4, 9)):
    expected = []
    for k in (1, 2, 4):
        got = wai.pass_at(rows, k=k, min_k=1)
        expected.append({"k": k, "passAt1": got.pass_at_1, "passAtK": got.pass_at_k, "passHatK": got.pass_pow_k})
    passes.append({"rows": plain(rows), "expected": expected})

# three evaluations of one model, and the band for other numbers of runs
runs = [rollouts(30, 4, 4) for _ in range(3)]
report = wai.eval_variance(*runs)
bands = [
    {"runStd": std, "nA": a, "nB": b, "df": df, "band": noise_band(std, a, b, df)}
    for std in (0.0125, 0.02)
    for a, b in ((1, 1), (2, 2), (2, 3), (5, 5))
    for df in (1, 2, 4, 9)
]

# replies whose reward goes with some words and with length, in groups of 8
FILLER = "we add the two numbers then take half of what is left so there are some more".split()
scan_rows = []
for p in range(20):
    ease = rng.random()
    for _ in range(8):
        words = [rng.choice(FILLER) for _ in range(rng.randint(4, 24))]
        steps = rng.randint(0, 4)
        words += [f"{rng.randint(1, 99)} + {rng.randint(1, 99)} = {rng.randint(1, 99)}." for _ in range(steps)]
        if rng.random() < 0.5:
            words.append("Check: fine!")
        text = " ".join(words)
        score = 0.6 * ease + 0.25 * ("Check" in text) - 0.004 * len(text) + 0.06 * steps + 0.2 * rng.random()
        scan_rows.append({"prompt": f"p{p}", "final_text": text, "reward": int(score > 0.35)})
scan = wai.hack_scan(scan_rows, seeds=0, top_features=None, n_perm=2000)

stats = {
    "whileai": whileai.__version__,
    "passes": passes,
    "evalVariance": {
        "runs": [plain(rows) for rows in runs],
        "means": list(report["means"].values()),
        "mean": report["mean"],
        "runStd": report["run_std"],
        "band": report["noise_band"],
    },
    "bands": bands,
    "hackScan": {
        "rows": [{"problemId": r["prompt"], "text": r["final_text"], "reward": r["reward"]} for r in scan_rows],
        "floor": scan["tau"],
        "top": scan["top_feature"],
        "features": [
            {"name": f["name"], "aliases": f["aliases"], "rho": f["rho"], "pooled": f["pooled"], "rows": f["n_obs"]}
            for f in scan["features"]
        ],
    },
}

# decontamination: held-out questions, and training questions that copy them, partly copy them, or do not
NAMES = ["Ada", "Ben", "Chloe", "Dev", "Ela"]
THINGS = ["apples", "marbles", "stamps", "tickets"]


def question(length):
    words = [rng.choice(NAMES), "has", str(rng.randint(2, 90)), rng.choice(THINGS), "and"]
    while len(words) < length:
        words += rng.choice(
            ["buys", "sells", "finds", "gives away", "wins", "loses", "counts", "paints"]
        ).split() + [str(rng.randint(2, 90)), "more", rng.choice(THINGS)]
    return " ".join(words[:length]) + "?"


heldout = [question(n) for n in (5, 6, 7, 12, 20, 25, 30, 40)]
train = [question(n) for n in (5, 6, 12, 20, 30, 40)]
train += [text.upper() for text in heldout[:3]] + [f"  {heldout[4]}  "]
for text in heldout[3:]:
    words = text.split()
    for cut in (0, 1, 2, 4, 8):
        train.append(" ".join(words[: len(words) - cut] + question(6).split()[:cut]))
        train.append(" ".join(question(5).split()[:cut] + words))
    middle = len(words) // 2
    train.append(" ".join([*words[:middle], "suddenly", *words[middle:]]))
rows = [{"prompt": text} for text in train]
clean, contamination = wai.decontaminate(rows, [{"prompt": text} for text in heldout])
kept = [row["prompt"] for row in clean]
decontamination = {
    "whileai": whileai.__version__,
    "rule": {"ngram": 8, "overlap": 0.8},
    "heldout": heldout,
    "train": train,
    "kept": kept,
    "dropped": contamination["n_contaminated"],
    "exact": contamination["n_exact"],
    "near": contamination["n_near"],
}

for path, content in (
    ("src/stats/fixtures/whileai.json", stats),
    ("src/tasks/fixtures/whileai-decontaminate.json", decontamination),
):
    target = root / path
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(content) + "\n")
    print(path, target.stat().st_size, "bytes")
