"""What a run's exports say to the programs that they are made for: Inspect's own reader, DuckDB and pyarrow.

Reads a request from standard input: the folders of the logs and of the Parquet files, and where to write the answer.
"""

import json
import sys

import duckdb
import pyarrow.parquet
from inspect_ai.log import list_eval_logs, read_eval_log

request = json.load(sys.stdin)
accuracy = {}
for info in list_eval_logs(request["inspect"]):
    log = read_eval_log(info.name)
    # As Inspect scores: a mean over epochs, then over samples.
    by_sample = {}
    for sample in log.samples:
        (score,) = sample.scores.values()
        by_sample.setdefault(sample.id, []).append(score.as_str() == "C")
    mean = sum(sum(all) / len(all) for all in by_sample.values()) / len(by_sample)
    said = log.results.scores[0].metrics["accuracy"].value
    accuracy[log.eval.metadata["job"]] = [said, mean]

posts = request["parquet"] + "/posts.parquet"
finals = duckdb.sql(
    f"select job, avg(correct::int) from '{posts}' where phase = 'evaluation' and is_final group by job"
).fetchall()
rows = pyarrow.parquet.read_table(posts).num_rows
steps = pyarrow.parquet.read_table(request["parquet"] + "/metrics.parquet").num_rows

with open(request["answer"], "w") as file:
    json.dump({"accuracy": accuracy, "finals": dict(finals), "rows": rows, "steps": steps}, file)
