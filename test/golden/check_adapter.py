"""Loads an adapter folder written by this project in PEFT and checks that every tensor took its place.

    python test/golden/check_adapter.py BASE_FOLDER ADAPTER_FOLDER [--same-as OTHER_ADAPTER_FOLDER]

Prints rank, alpha, the number of tensors, and the largest change of a logit that the adapter makes. With
--same-as, exits with 1 unless both adapters give the same logits.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from peft import PeftModel, get_peft_model_state_dict
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM


def load_base(folder: str):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()


def logits_of(model) -> torch.Tensor:
    tokens = torch.arange(min(16, model.config.vocab_size))[None]
    with torch.no_grad():
        return model(input_ids=tokens, use_cache=False).logits[0]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("adapter")
    parser.add_argument("--same-as")
    args = parser.parse_args()

    base = logits_of(load_base(args.base))
    model = PeftModel.from_pretrained(load_base(args.base), args.adapter).eval()
    saved = load_file(Path(args.adapter) / "adapter_model.safetensors")
    loaded = get_peft_model_state_dict(model)
    assert saved.keys() == loaded.keys(), sorted(saved.keys() ^ loaded.keys())
    assert all(torch.equal(saved[name], loaded[name]) for name in saved)
    adapted = logits_of(model)
    config = model.peft_config["default"]
    change = (adapted - base).abs().max().item()
    print(f"rank {config.r}, alpha {config.lora_alpha}, {len(saved)} tensors, largest change of a logit {change:.3f}")
    if args.same_as:
        other = logits_of(PeftModel.from_pretrained(load_base(args.base), args.same_as).eval())
        difference = (adapted - other).abs().max().item()
        print(f"largest difference from {args.same_as}: {difference:.2e}")
        return 0 if difference == 0 else 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
