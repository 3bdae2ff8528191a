"""Loads a checkpoint folder in transformers and prints the logits of given tokens.

    python test/golden/check_checkpoint.py FOLDER --tokens 1,5,9 [--adapter FOLDER] [--against LOGITS.json]

Without --tokens, the first 16 ids of the vocabulary stand in. Prints one JSON object: {"tokens": [...],
"logits": [[...], ...]}, in float32 with eager attention. With --against, a file of the same form written by this
project, it prints the largest absolute difference instead, and exits with 1 when it is above --tolerance.
"""

import argparse
import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
from transformers import AutoModelForCausalLM


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder")
    parser.add_argument("--tokens", help="token ids, separated by commas")
    parser.add_argument("--adapter", help="a PEFT adapter folder to put on the model")
    parser.add_argument("--against", help="a JSON file with tokens and logits to compare with")
    parser.add_argument("--tolerance", type=float, default=1e-4)
    args = parser.parse_args()

    model, info = AutoModelForCausalLM.from_pretrained(
        args.folder, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    for problem in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        if info[problem]:
            print(f"{problem}: {sorted(info[problem])}", file=sys.stderr)
            return 1
    if args.adapter:
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, args.adapter)
    model.eval()

    given = json.loads(Path(args.against).read_text()) if args.against else None
    if given:
        tokens = given["tokens"]
    elif args.tokens:
        tokens = [int(token) for token in args.tokens.split(",")]
    else:
        tokens = list(range(min(16, model.config.vocab_size)))
    with torch.no_grad():
        logits = model(input_ids=torch.tensor([tokens]), use_cache=False).logits[0]
    if not given:
        print(json.dumps({"tokens": tokens, "logits": logits.tolist()}))
        return 0
    difference = (logits - torch.tensor(given["logits"])).abs().max().item()
    print(f"largest difference of a logit: {difference:.2e} (tolerance {args.tolerance:.0e})")
    return 0 if difference <= args.tolerance else 1


if __name__ == "__main__":
    sys.exit(main())
