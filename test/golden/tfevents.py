"""Event files as TensorBoard's own writer writes them: the fixture of src/log/tensorboard.test.ts.

    python -m venv .venv-tb && .venv-tb/bin/pip install tensorboard==2.21.0 'setuptools<81'
    .venv-tb/bin/python test/golden/tfevents.py            writes the fixture
    .venv-tb/bin/python test/golden/tfevents.py FOLDER     prints the scalars of a run's tensorboard folder
"""

import io
import json
import pathlib
import sys

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary

FIXTURE = pathlib.Path(__file__).parents[2] / "src/log/fixtures/tensorboard.json"
EVENTS = [
    {"wallTime": 1700000001.25, "step": 1, "scalars": {"train/reward": 0.5, "optim/loss": -0.0125}},
    {"wallTime": 1700000002.5, "step": 300, "scalars": {"train/reward": 0.0, "tokens/sampled": 123456.0}},
    {"wallTime": 1700000003.0, "step": 2**40, "scalars": {"a tag with ümlauts/ß": 1e-7}},
]


def write() -> None:
    from tensorboard.summary.writer.record_writer import RecordWriter

    class Kept(io.BytesIO):
        def close(self) -> None:
            pass

    file = Kept()
    writer = RecordWriter(file)
    writer.write(Event(wall_time=1700000000, file_version="brain.Event:2").SerializeToString())
    for event in EVENTS:
        values = [Summary.Value(tag=tag, simple_value=value) for tag, value in event["scalars"].items()]
        summary = Summary(value=values)
        writer.write(Event(wall_time=event["wallTime"], step=event["step"], summary=summary).SerializeToString())
    writer.flush()
    FIXTURE.parent.mkdir(exist_ok=True)
    FIXTURE.write_text(json.dumps({"start": 1700000000, "events": EVENTS, "hex": file.getvalue().hex()}, indent=1) + "\n")


def show(folder: str) -> None:
    from tensorboard.backend.event_processing.event_multiplexer import EventMultiplexer

    runs = EventMultiplexer().AddRunsFromDirectory(folder)
    runs.Reload()
    for run, found in sorted(runs.Runs().items()):
        for tag in sorted(found["scalars"]):
            points = runs.Scalars(run, tag)
            print(run, tag, [(point.step, round(point.value, 6)) for point in points][:5], len(points))


if __name__ == "__main__":
    show(sys.argv[1]) if len(sys.argv) > 1 else write()
