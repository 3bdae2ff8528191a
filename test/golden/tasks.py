"""Small Parquet and JSON Lines files as the hub lays the named problem sets out, for the tests of src/tasks/named.ts.

    python test/golden/tasks.py      (needs pyarrow)

The problems are made up; columns, types and compression are those of the hub's files. Compressions that people's own
files come in are written too. The files' bytes depend on pyarrow's version; what they hold does not.
"""

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).resolve().parents[2] / "src" / "tasks" / "fixtures" / "hub"


def write(path: str, rows: list[dict], compression: str = "snappy") -> None:
    target = FOLDER / path
    target.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), target, compression=compression)


def gsm8k(split: str, count: int) -> None:
    rows = [
        {
            "question": f"In {split} story {i}, Ana has {i} pens and buys {1000 * i} more. How many pens has she got?",
            "answer": f"She has {i} + {1000 * i} = <<{i}+{1000 * i}={1001 * i}>>{1001 * i} pens.\n#### {1001 * i:,}",
        }
        for i in range(1, count + 1)
    ]
    write(f"gsm8k/main/{split}-00000-of-00001.parquet", rows)
    (FOLDER / "gsm8k" / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def svamp() -> None:
    rows = [
        {
            "ID": f"chal-{i}",
            "Body": f"Tom picked {10 * i} plums{'.' if i % 2 else ''}",
            "Question": f"How many are left when he eats {i}?",
            "Equation": f"( {10 * i}.0 - {i}.0 )",
            "Answer": f"{9 * i}",
            "Type": "Subtraction",
            "question_concat": "",
        }
        for i in range(1, 13)
    ]
    # Dealt into two files, neither in the order of their numbers.
    write("svamp/default/train/0000.parquet", [rows[i] for i in (7, 0, 11, 3, 5, 9, 1)])
    write("svamp/default/test/0000.parquet", [rows[i] for i in (10, 2, 4, 8, 6)])
    original = [{**{k: row[k] for k in ("ID", "Body", "Question", "Equation", "Type")}, "Answer": float(row["Answer"])} for row in rows]
    (FOLDER / "svamp" / "SVAMP.json").write_text(json.dumps(original))


def math() -> None:
    for subject in ("algebra", "number_theory"):
        rows = [
            {
                "problem": f"In {subject} problem {i}, what is ${i}^2$?",
                "level": "Level ?" if i == 6 else f"Level {i}",
                "type": subject.replace("_", " ").title(),
                "solution": f"It is \\boxed{{{i}}} times itself, which is ${'' if i == 4 else chr(92) + 'boxed{' + str(i * i) + '}'}$."
                if i != 5
                else "It has no final answer.",
            }
            for i in range(1, 7)
        ]
        write(f"math/{subject}/train-00000-of-00001.parquet", rows)
    tests = [
        {
            "problem": f"What is ${i}^3$ in the test?",
            "solution": f"$\\boxed{{{i**3}}}$",
            "answer": f"{i**3}",
            "subject": "Algebra",
            "level": 1 + i % 5,
            "unique_id": f"test/algebra/{i}.json",
        }
        for i in range(1, 11)
    ]
    target = FOLDER / "math500" / "test.jsonl"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text("".join(json.dumps(row) + "\n" for row in tests))


def own_files() -> None:
    rows = [{"question": f"What is {i} + 1?", "gold": i + 1} for i in range(5)]
    for compression in ("none", "gzip", "zstd", "brotli", "lz4"):
        write(f"own/{compression}.parquet", rows, compression)
    # Numbers that a double does not hold, in two row groups, with nulls.
    golds = [2**53 + 1, -(2**62) - 1, 7, None]
    columns = {
        "question": pa.array([f"Number {i}?" for i in range(4)]),
        "gold": pa.array(golds, pa.int64()),
        "unsigned": pa.array([2**64 - 1, 0, 1, None], pa.uint64()),
        "small": pa.array([Decimal("3.50"), Decimal("-0.05"), Decimal("2.00"), None], pa.decimal128(9, 2)),
        "large": pa.array([Decimal(10**30 + 1), Decimal(-1), Decimal(0), None], pa.decimal128(38, 0)),
        "parts": pa.array([[1], [2, 3], [], None], pa.list_(pa.int64())),
    }
    pq.write_table(pa.table(columns), FOLDER / "own/exact.parquet", compression="snappy", row_group_size=3)



if __name__ == "__main__":
    gsm8k("train", 8)
    gsm8k("test", 6)
    svamp()
    math()
    own_files()
