"""Adapters of every kind that PEFT's LoraConfig can make on a small Llama, and what they compute.

Writes, under src/engine/fixtures/adapters/:

  <variant>/    an adapter that is honoured, as PEFT saves it
  golden.json   for each the log-probabilities of the sequences in ../llama/golden.json at temperature 1, and the
                settings of the variants that are refused, as PEFT saves them

Run after engine.py: python test/golden/adapters.py
"""

import copy
import json
import os
import shutil
import warnings
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
warnings.simplefilter("ignore")

import torch
from peft import PeftModel
from transformers import LlamaForCausalLM

from adapter_variants import HONOURED, REFUSED, adapter_of

FIXTURES = Path(__file__).resolve().parents[2] / "src" / "engine" / "fixtures"


def make(base, options: dict, folder: Path | None) -> dict:
    """Saves an adapter, or its settings alone; gives the settings as they were saved."""
    model = adapter_of(base, options)
    model.peft_config["default"].base_model_name_or_path = "llama"
    scratch = folder or FIXTURES / "adapters" / "scratch"
    model.save_pretrained(scratch)
    (scratch / "README.md").unlink()
    settings = json.loads((scratch / "adapter_config.json").read_text())
    for key in ("target_modules", "exclude_modules"):
        if isinstance(settings[key], list):
            settings[key] = sorted(settings[key])
    (scratch / "adapter_config.json").write_text(json.dumps(settings, indent=1, sort_keys=True) + "\n")
    if folder is None:
        shutil.rmtree(scratch)
    return settings


def logprobs(model, sequence: dict) -> list[float]:
    ids = torch.tensor([sequence["prompt"] + sequence["completion"]])
    with torch.no_grad():
        rows = torch.log_softmax(model(input_ids=ids, use_cache=False).logits[0], -1)
    start = len(sequence["prompt"])
    return [rows[start - 1 + t, token].item() for t, token in enumerate(sequence["completion"])]


if __name__ == "__main__":
    torch.set_num_threads(1)
    base = LlamaForCausalLM.from_pretrained(FIXTURES / "llama", attn_implementation="eager", dtype=torch.float32).eval()
    sequences = json.loads((FIXTURES / "llama" / "golden.json").read_text())["sequences"]
    out = FIXTURES / "adapters"
    shutil.rmtree(out, ignore_errors=True)
    golden = {"honoured": {}, "refused": {}}
    for name, options in HONOURED.items():
        make(base, options, out / name)
        # As anybody loads it.
        loaded = PeftModel.from_pretrained(copy.deepcopy(base), out / name).eval()
        golden["honoured"][name] = [logprobs(loaded, sequence) for sequence in sequences]
    for name, options in REFUSED.items():
        golden["refused"][name] = make(base, options, None)
    (out / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
