"""Writes src/grade/fixtures/math-verify.jsonl.gz: replies, golds and what Math-Verify says of them.

The replies are made here, seeded, in the shapes that models answer GSM8K, SVAMP and MATH problems in; so the right
verdict is known by construction and recorded as `truth` (a reply that was cut before it stated an answer is wrong).
From GSM8K and SVAMP come only the numbers: golds, and the equations of the worked answers. MATH-like golds and the
ways to write them are in math_answers.txt and math_answers_2.txt. The verdict is Math-Verify's with its defaults, the gold between dollar
signs: the reference experiment's reward. `anchored` is its verdict when it may not take a number from anywhere in the
text (try_extract_without_anchor off).

usage: python test/golden/grading.py [--data ../shared/data]     (needs math-verify, sympy)
"""

import argparse
import gzip
import importlib.metadata
import json
import random
import re
from pathlib import Path

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify

HERE = Path(__file__).resolve().parent
OUT = HERE.parent.parent / "src/grade/fixtures/math-verify.jsonl.gz"

ANCHORED = [
    LatexExtractionConfig(try_extract_without_anchor=False),
    ExprExtractionConfig(try_extract_without_anchor=False),
]

NOUNS = (
    "apples clips pages books miles hours dollars marbles tickets cookies liters students eggs cards".split()
)
SUBJECTS = ["She", "He", "Tom", "Maria", "The farmer", "The class", "Mr. Lee"]


def number_forms(value):
    """A gold number as text: thousands separated or not."""
    whole = f"{int(value):,}" if float(value).is_integer() else f"{value:,}"
    return str(value), whole


def load_numbers(data):
    """(set, gold, equations) triples: GSM8K with the equations of its worked answers, SVAMP with its one."""
    for split in ("train", "test"):
        for line in open(data / f"gsm8k/{split}.jsonl"):
            row = json.loads(line)
            gold = row["answer"].split("####")[1].strip().replace(",", "")
            steps = re.findall(r"<<([^<>=]+)=([^<>=]+)>>", row["answer"])
            yield "gsm8k", gold, steps
    for row in json.load(open(data / "svamp/SVAMP.json")):
        gold = row["Answer"]
        gold = str(int(gold)) if float(gold).is_integer() else str(gold)
        equation = re.sub(r"(\d+)\.0\b", r"\1", row["Equation"]).strip("( )")
        yield "svamp", gold, [(equation, gold)]


def wrong_answer(rng, gold, steps):
    """A plausible wrong answer: an intermediate result, or a slip."""
    options = [r for _, r in steps if r.replace(".", "", 1).isdigit() and float(r) != float(gold)]
    value = float(gold)
    slips = [value + 1, value - 1, value * 10, value * 2, value + 10, -value if value else 7]
    pick = rng.choice(options) if options and rng.random() < 0.5 else rng.choice(slips)
    value = float(pick)
    return str(int(value)) if value.is_integer() else str(value)


def working(rng, steps):
    """Lines of working in one of the styles that models use."""
    style = rng.choice(["plain", "sentence", "latex", "bullets", "inline", "prose"])
    lines = []
    for i, (left, right) in enumerate(steps):
        noun = rng.choice(NOUNS)
        spaced = re.sub(r"\s*([-+*/])\s*", r" \1 ", left).strip()
        tex = spaced.replace("*", r"\times").replace("/", r"\div")
        lines.append(
            {
                "plain": f"{spaced} = {right}",
                "sentence": f"{rng.choice(SUBJECTS)} has {spaced} = {right} {noun}.",
                "latex": f"\\[ {tex} = {right} \\]",
                "bullets": f"{i + 1}. **Step {i + 1}**: find the {noun}: {spaced} = {right} {noun}",
                "inline": f"The number of {noun} is \\({tex} = {right}\\).",
                "prose": f"First we need the {noun}, which is {spaced} = {right}.",
            }[style]
        )
    return lines


def boxed_plain(rng, n):
    return rng.choice([n, n, n, f"{float(n):,.0f}" if float(n).is_integer() else n])


def boxed_decorated(rng, n):
    noun = rng.choice(NOUNS)
    return rng.choice(
        [
            f"\\${n}",
            f"{n} \\text{{ {noun}}}",
            f"{n}\\text{{ {noun}}}",
            f"{n}\\%",
            f"\\text{{{n}}}",
            f"{n}.00",
            f"{n} \\, \\text{{{noun}}}",
            f"${n}$",
            f"{n}^\\circ",
        ]
    )


def box_sentence(rng, inside):
    return rng.choice(
        [
            f"\\boxed{{{inside}}}",
            f"The final answer is \\boxed{{{inside}}}.",
            f"\\[ \\boxed{{{inside}}} \\]",
            f"Therefore, the answer is $\\boxed{{{inside}}}$.",
            f"So the answer is \\(\\boxed{{{inside}}}\\).",
            f"**Final Answer:** \\boxed{{{inside}}}",
            f"Thus, {rng.choice(SUBJECTS)} gets \\boxed{{{inside}}} {rng.choice(NOUNS)}.",
        ]
    )


SHAPES = {  # name: weight
    "box": 30,
    "box, decorated": 12,
    "box, unit in plain words": 1,
    "box, equation": 2,
    "box, then a check": 3,
    "box, correcting an earlier box": 1,
    "box, after a copied instruction": 1,
    "####": 12,
    "answer is": 12,
    "answer:": 6,
    "conclusion": 12,
    "number alone": 2,
    "cut in the working": 10,
    "cut in the box": 2,
}


def word_problem_reply(rng, shape, gold, steps):
    """(reply, truth): a reply of that shape, right or wrong."""
    right = rng.random() < 0.6
    n = gold if right else wrong_answer(rng, gold, steps)
    lines = working(rng, steps)
    noun, who = rng.choice(NOUNS), rng.choice(SUBJECTS)
    plain, comma = number_forms(float(n) if "." in n else int(n))
    shown = rng.choice([plain, comma])
    if shape == "box":
        end = box_sentence(rng, boxed_plain(rng, n))
    elif shape == "box, decorated":
        end = box_sentence(rng, boxed_decorated(rng, n))
    elif shape == "box, unit in plain words":
        end = box_sentence(rng, f"{n} {noun}")
    elif shape == "box, equation":
        left, _ = steps[-1]
        end = box_sentence(rng, rng.choice([f"x = {n}", f"{left.replace('*', chr(92) + 'times ')} = {n}"]))
    elif shape == "box, then a check":
        end = box_sentence(rng, n) + rng.choice(
            [
                f"\n\nCheck: {steps[0][0]} = {steps[0][1]}.",
                f" This takes all {len(steps)} steps into account.",
                "\n\nI hope this helps!",
            ]
        )
    elif shape == "box, correcting an earlier box":
        other = wrong_answer(rng, n, steps)
        end = f"\\boxed{{{other}}}\n\nWait, that is not right, since the last step was left out. Doing it again gives \\boxed{{{n}}}."
    elif shape == "box, after a copied instruction":
        lines.insert(0, "Let's solve this and put the final answer in \\boxed{}.")
        end = box_sentence(rng, n)
    elif shape == "####":
        end = f"#### {rng.choice([shown, shown, '$' + shown if not n.startswith('-') else shown])}"
    elif shape == "answer is":
        end = rng.choice(
            [
                f"The answer is {shown}.",
                f"So the answer is ${shown}." if not n.startswith("-") else f"The answer is {shown}.",
                f"The final answer is ${n}$.",
                f"The answer is \\({n}\\).",
                f"The answer is **{shown}**.",
                f"The answer is {shown} {noun}.",
                f"So, the final answer is: {shown}",
                f"The final answer is ${n}$. I hope it is correct.",
            ]
        )
    elif shape == "answer:":
        end = rng.choice(
            [
                f"Answer: {shown}",
                f"**Answer:** {shown}",
                f"**Answer: {shown}**",
                f"Final answer: {shown} {noun}",
                f"Answer: ${n}$",
            ]
        )
    elif shape == "conclusion":
        end = rng.choice(
            [
                f"Therefore, {who} has {shown} {noun}.",
                f"So, {who} has a total of {shown} {noun}.",
                f"Thus, the total number of {noun} is {shown}.",
                f"Therefore, {who} makes **{shown}** {noun} every day.",
                f"So {who} needs {steps[-1][0]} = {shown} {noun}.",
                f"Therefore, {who} earns ${shown} in all." if not n.startswith("-") else f"So it is {shown}.",
                f"Hence, {who} will have \\({n}\\) {noun} left.",
            ]
        )
    elif shape == "number alone":
        return rng.choice([n, shown, f"{shown} {noun}", f"**{n}**"]), right
    elif shape == "cut in the working":
        text = "\n".join(lines)
        if len(steps) > 1 and rng.random() < 0.8:
            text = "\n".join(lines[:-1]) + "\n" + lines[-1][: rng.randrange(1, len(lines[-1]))]
        else:
            text = text[: rng.randrange(len(text) // 3, len(text))]
        return text.rstrip(), False
    elif shape == "cut in the box":
        return "\n".join(lines) + "\n\nThe final answer is \\boxed{" + n[: rng.randrange(0, len(n))], False
    return "\n".join([*lines, "", end]), right


def maths_reply(rng, form):
    """A reply that gives a MATH-like answer written as `form`: (shape, reply)."""
    roll = rng.random()
    lead = rng.choice(
        [
            "",
            "",
            "Solving, we get two cases.\n\n",
            "By symmetry, the value is the same in both cases.\n\n",
            "We have $a^2 + b^2 = 25$, so $a = 3$.\n\n",
        ]
    )
    if roll < 0.8:
        return "box", lead + rng.choice(
            [
                f"\\boxed{{{form}}}",
                f"The final answer is $\\boxed{{{form}}}$.",
                f"Therefore, the answer is $\\boxed{{{form}}}$.",
                f"\\[ \\boxed{{{form}}} \\]",
                f"Thus \\(\\boxed{{{form}}}\\).",
            ]
        )
    form = form.replace("$", "")
    return "stated", lead + rng.choice(
        [
            f"The answer is ${form}$.",
            f"The final answer is ${form}$. I hope it is correct.",
            f"The final answer is \\({form}\\).",
            f"**Answer:** ${form}$",
        ]
    )


def load_answers(file):
    """(gold, form, truth) triples of a list of answers; a gold is also written as itself."""
    for line in open(HERE / file):
        if line.startswith("#") or not line.strip():
            continue
        gold, *forms = re.split(r" \| (?=[=!] )", line.strip())
        yield gold, gold, True
        for form in forms:
            yield gold, form[2:], form[0] == "="


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", type=Path, default=HERE.parent.parent.parent / "shared/data")
    args = parser.parse_args()
    rng = random.Random(20260923)
    problems = list(load_numbers(args.data))
    made = []
    for name, count in (("gsm8k", 1400), ("svamp", 500)):
        pool = [p for p in problems if p[0] == name and p[2] and all(len(left) < 40 for left, _ in p[2])]
        for _, gold, steps in rng.sample(pool, count):
            shape = rng.choices(list(SHAPES), SHAPES.values())[0]
            reply, truth = word_problem_reply(rng, shape, gold, steps)
            made.append((name, shape, reply, gold, truth))
    for name, file in (("math", "math_answers.txt"), ("math2", "math_answers_2.txt")):
        for gold, form, truth in load_answers(file):
            for _ in range(2):
                shape, reply = maths_reply(rng, form)
                made.append((name, shape, reply, gold, truth))
    made = list(dict.fromkeys(made))
    rows = [
        {
            "versions": {
                p: importlib.metadata.version(p) for p in ("math-verify", "sympy", "latex2sympy2_extended")
            }
        }
    ]
    for name, shape, reply, gold, truth in made:
        wanted = parse(f"${gold}$")
        verdict = bool(verify(wanted, parse(reply)))
        anchored = bool(verify(wanted, parse(reply, extraction_config=ANCHORED)))
        rows.append([name, shape, reply, gold, int(truth), int(verdict), int(anchored)])
    text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows)
    OUT.parent.mkdir(parents=True, exist_ok=True)
    OUT.write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    print(len(rows) - 1, "rows,", OUT.stat().st_size, "bytes")


if __name__ == "__main__":
    main()
