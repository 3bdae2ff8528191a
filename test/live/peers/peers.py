"""The other side of `npm run test:peers`: what Python's tools say. Reads a request as JSON from its standard input and
writes its answer as JSON to the file that the request names, large tensors beside it as safetensors.

    python test/live/peers/peers.py COMMAND < request.json

Everything is float32 on the CPU.
"""

import copy
import json
import os
import resource
import sys
import time
from importlib.metadata import version
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM, AutoTokenizer


def load(folder: str):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()


def tokens(request: dict) -> dict:
    """Ids of texts, and of chats rendered by the checkpoint's template."""
    tokenizer = AutoTokenizer.from_pretrained(request["folder"])
    # Llama 3.1's template writes a date: the project gives it a fixed one.
    arguments = {"date_string": "26 Jul 2024", **request.get("template", {})}
    chat = lambda messages: tokenizer.apply_chat_template(
        messages, add_generation_prompt=True, return_dict=False, **arguments
    )
    return {
        "texts": [tokenizer(text, add_special_tokens=False)["input_ids"] for text in request["texts"]],
        "chats": [chat(messages) for messages in request["chats"]],
    }


def logits_of(model, sequences: list[list[int]]) -> list[torch.Tensor]:
    """Logits of every position of each sequence."""
    with torch.no_grad():
        return [model(input_ids=torch.tensor([ids]), use_cache=False).logits[0].contiguous() for ids in sequences]


def logits(request: dict) -> dict:
    """Logits of every position of each sequence, with an adapter by PEFT where one is named."""
    model = load(request["folder"])
    if request.get("adapter"):
        from peft import PeftModel

        model = PeftModel.from_pretrained(model, request["adapter"]).eval()
    found = logits_of(model, request["sequences"])
    save_file({str(i): tensor for i, tensor in enumerate(found)}, request["tensors"])
    return {}


def adapters(request: dict) -> dict:
    """Saves an adapter of every variant of PEFT's settings; of those to be honoured the logits, as anybody loads them."""
    from peft import PeftModel

    sys.path.append(str(Path(__file__).resolve().parents[2] / "golden"))
    from adapter_variants import HONOURED, REFUSED, adapter_of

    base, out, found = load(request["folder"]), Path(request["out"]), {}
    for name, options in {**HONOURED, **REFUSED}.items():
        adapter_of(base, options).save_pretrained(out / name)
        if name in HONOURED:
            model = PeftModel.from_pretrained(copy.deepcopy(base), out / name).eval()
            for i, tensor in enumerate(logits_of(model, request["sequences"])):
                found[f"{name}.{i}"] = tensor
    save_file(found, request["tensors"])
    return {"honoured": list(HONOURED), "refused": list(REFUSED)}


def save_as(request: dict) -> dict:
    """The same model in another precision and, by a small limit, in several files."""
    model = load(request["folder"]).to(getattr(torch, request["dtype"]))
    model.save_pretrained(request["out"], max_shard_size=request["shardBytes"])
    return {"files": sorted(path.name for path in Path(request["out"]).glob("*.safetensors"))}


def greedy(request: dict) -> dict:
    """The likeliest continuations, one prompt at a time, and how near each choice was to the second best."""
    model = load(request["folder"])
    found, gaps = [], []
    for prompt in request["prompts"]:
        ids = torch.tensor([prompt])
        with torch.no_grad():
            out = model.generate(
                ids,
                attention_mask=torch.ones_like(ids),
                do_sample=False,
                max_new_tokens=request["count"],
                eos_token_id=request["stop"],
                pad_token_id=request["stop"][0],
                return_dict_in_generate=True,
                output_logits=True,
            )
        found.append(out.sequences[0, len(prompt) :].tolist())
        best = torch.stack(out.logits)[:, 0].topk(2, dim=-1).values
        gaps.append((best[:, 0] - best[:, 1]).tolist())
    return {"completions": found, "gaps": gaps}


def speed(request: dict) -> dict:
    """Seconds of generation and of a GRPO-like forward and backward with LoRA, as a careful user would run them."""
    from peft import LoraConfig, get_peft_model

    torch.set_num_threads(request["threads"])
    started = time.perf_counter()
    model = load(request["folder"])
    loaded = time.perf_counter() - started
    peak_loaded = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    prompts, new = request["prompts"], request["newTokens"]
    longest = max(map(len, prompts))
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])

    def generate():
        with torch.no_grad():
            model.generate(
                ids,
                attention_mask=mask,
                do_sample=True,
                temperature=0.9,
                top_p=request["topP"],
                top_k=0,
                min_new_tokens=new,
                max_new_tokens=new,
                num_return_sequences=request["copies"],
                pad_token_id=0,
            )

    generation = timed(generate, request["rounds"])

    lora = LoraConfig(r=32, lora_alpha=64, target_modules=request["projections"], task_type="CAUSAL_LM")
    trained = get_peft_model(model, lora).train()
    rows = [p + c for p, c in zip(request["trainPrompts"], request["trainCompletions"])]
    longest = max(map(len, rows))
    row_ids = torch.tensor([r + [0] * (longest - len(r)) for r in rows])
    row_mask = torch.tensor([[1] * len(r) + [0] * (longest - len(r)) for r in rows])
    keep = max(len(c) for c in request["trainCompletions"]) + 1 + max(longest - len(r) for r in rows)
    counted = torch.zeros(row_ids.shape)
    for i, (p, c) in enumerate(zip(request["trainPrompts"], request["trainCompletions"])):
        counted[i, len(p) : len(p) + len(c)] = 1

    def forward_backward():
        trained.zero_grad()
        for start in range(0, len(rows), request["microBatch"]):
            part = slice(start, start + request["microBatch"])
            # Logits of the last positions alone, as TRL asks for them.
            out = trained(input_ids=row_ids[part], attention_mask=row_mask[part], logits_to_keep=keep).logits
            now = torch.log_softmax(out[:, :-1] / 0.9, -1)
            picked = now.gather(-1, row_ids[part, -keep + 1 :, None])[..., 0]
            ratio = torch.exp(picked - picked.detach())
            (-(ratio * counted[part, -keep + 1 :]).sum() / len(rows)).backward()

    training = timed(forward_backward, request["rounds"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "versions": {name: version(name) for name in ("torch", "transformers", "peft")},
        "load": loaded,
        "generation": generation,
        "training": training,
        "peakLoadedMiB": peak_loaded / 1024,
        "peakMiB": peak / 1024,
    }


def timed(work, rounds: int) -> list[float]:
    """Seconds of each round; the first, which warms up, is not counted."""
    work()
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        work()
        seconds.append(time.perf_counter() - started)
    return seconds


if __name__ == "__main__":
    request = json.load(sys.stdin)
    answer = {"tokens": tokens, "logits": logits, "adapters": adapters, "save_as": save_as, "greedy": greedy, "speed": speed}[sys.argv[1]](request)
    Path(request["answer"]).write_text(json.dumps(answer))
