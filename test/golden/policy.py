"""What transformers makes of the built-in policy: chat tokens and the log-probabilities of replies, in float32.

    pip install -r test/golden/requirements.txt && python test/golden/policy.py

Writes test/fixtures/policy.json. Run it after `npm run train:policy`.
"""

import json
import os
import pathlib

os.environ["HF_HUB_OFFLINE"] = "1"

import torch
import transformers
from transformers import AutoModelForCausalLM, AutoTokenizer

root = pathlib.Path(__file__).parents[2]
folder = root / "policies/small"
tokenizer = AutoTokenizer.from_pretrained(folder)
model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager")

question = "Mia has 12 apples and buys 3 bags of 8 apples each. How many apples does Mia have in all?"
chats = [
    (f"{question}\n\nPost a short note: the key steps, then the answer in \\boxed{{}}.", "3*8=24\n12+24=36\n\\boxed{36}"),
    (f"{question}\n\nNotes, maybe wrong or cut off:\nNote 1: 3*8=21\n12+21", "The bags hold 3*8=24 apples.\nSo \\boxed{37}"),
    ("Caf\u00e9 <x> 1,234 na\u00efve \U0001f600  'tis\tit", "unseen words, Zebra!"),
]
rows = []
for prompt, reply in chats:
    ids = tokenizer.apply_chat_template(
        [{"role": "user", "content": prompt}], add_generation_prompt=True, tokenize=True, return_dict=False
    )
    completion = tokenizer(reply, add_special_tokens=False)["input_ids"] + [tokenizer.eos_token_id]
    with torch.no_grad():
        logits = model(torch.tensor([ids + completion])).logits[0].double()
    logprobs = logits.log_softmax(-1)[len(ids) - 1 : -1]
    picked = logprobs.gather(1, torch.tensor(completion)[:, None])[:, 0]
    rows.append({"prompt": prompt, "reply": reply, "ids": ids, "completion": completion, "logprobs": picked.tolist()})
target = root / "test/fixtures/policy.json"
target.write_text(json.dumps({"transformers": transformers.__version__, "chats": rows}) + "\n")
print(f"{target}: {[round(sum(r['logprobs']), 4) for r in rows]}")
