"""Golden values for the built-in engine, from PyTorch, transformers and PEFT.

For tiny random models this writes, under src/engine/fixtures/<name>/:

  config.json, model.safetensors   the base, as transformers saves it
  adapter/                         a LoRA adapter on all seven projections, as PEFT saves it
  golden.json                      inputs, log-probabilities, losses, norms, settings
  golden.safetensors               logits; LoRA gradients; LoRA parameters after AdamW steps
  golden-full.safetensors          gradients of every base parameter; the parameters after one AdamW step

The models: a Llama (untied head, grouped-query attention), the same with tied embeddings and Llama 3's RoPE scaling,
a Qwen2 (tied embeddings, biases on q, k, v, one key-value head), and a Qwen3 (untied head, norms on q and k). Their
heads are wider than hidden size over heads.

Sequences run one by one, so there is no padding and positions start at 0. Losses are the sums that
src/engine/contract.ts defines. Run: python test/golden/engine.py
"""

import copy
import json
import math
import os
import shutil
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"  # nothing here is on a hub

import peft
import torch
import transformers
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import (
    LlamaConfig,
    LlamaForCausalLM,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.generation.logits_process import TopPLogitsWarper

FIXTURES = Path(__file__).resolve().parents[2] / "src" / "engine" / "fixtures"
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
TEMPERATURE, TOP_P = 0.9, 0.9
CLIP_LOW, CLIP_HIGH = 0.2, 0.28
ADAM = {"learningRate": 1e-3, "beta1": 0.9, "beta2": 0.999, "epsilon": 1e-8}

SIZES = dict(
    vocab_size=96,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=2,
    num_attention_heads=4,
    head_dim=16,  # the attention operator for sampling wants a multiple of 16
    max_position_embeddings=64,
    bos_token_id=1,
    eos_token_id=2,
    pad_token_id=None,
    attn_implementation="eager",
)
MODELS = {
    "llama": lambda: LlamaForCausalLM(
        LlamaConfig(**SIZES, num_key_value_heads=2, tie_word_embeddings=False, rms_norm_eps=1e-5)
    ),
    "qwen2": lambda: Qwen2ForCausalLM(
        Qwen2Config(
            **SIZES,
            num_key_value_heads=1,
            tie_word_embeddings=True,
            rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
        )
    ),
    "qwen3": lambda: Qwen3ForCausalLM(
        Qwen3Config(
            **SIZES,
            num_key_value_heads=2,
            tie_word_embeddings=False,
            rms_norm_eps=1e-6,
            rope_parameters={"rope_type": "default", "rope_theta": 1_000_000.0},
        )
    ),
    "llama3": lambda: LlamaForCausalLM(
        LlamaConfig(
            **SIZES,
            num_key_value_heads=4,
            tie_word_embeddings=True,
            rms_norm_eps=1e-5,
            # A short original context, so that these short sequences reach all three bands of frequencies.
            rope_parameters={
                "rope_type": "llama3",
                "rope_theta": 500.0,
                "factor": 8.0,
                "low_freq_factor": 1.0,
                "high_freq_factor": 4.0,
                "original_max_position_embeddings": 32,
            },
        )
    ),
}


def randomise(model: torch.nn.Module) -> None:
    """Weights large enough that attention, gates and biases all matter to the logits."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith("norm.weight"):
                parameter.copy_(1 + 0.2 * torch.randn_like(parameter))
            elif name.endswith("bias"):
                parameter.normal_(0, 0.5)
            elif "embed_tokens" in name or "lm_head" in name:
                parameter.normal_(0, 0.3)
            else:
                parameter.normal_(0, 1 / math.sqrt(parameter.shape[-1]))


def make_sequences() -> list[dict]:
    """Three prompts with three, one and two completions, of different lengths, not grouped by prompt."""
    tokens = lambda n: torch.randint(3, SIZES["vocab_size"], (n,)).tolist()
    prompts = [tokens(3), tokens(8), tokens(5)]
    rows = [(0, 4), (1, 5), (0, 6), (2, 9), (2, 2), (0, 1)]
    return [{"prompt": prompts[i], "completion": tokens(n)} for i, n in rows]


def logits_of(model, sequence) -> torch.Tensor:
    ids = torch.tensor([sequence["prompt"] + sequence["completion"]])
    return model(input_ids=ids, use_cache=False).logits[0]


def logprobs_of(model, sequence, temperature: float) -> torch.Tensor:
    start = len(sequence["prompt"])
    rows = logits_of(model, sequence)[start - 1 : -1] / temperature
    return torch.log_softmax(rows, -1).gather(1, torch.tensor(sequence["completion"])[:, None])[:, 0]


def policy_loss(model, sequences) -> torch.Tensor:
    total = torch.zeros(())
    for sequence in sequences:
        now = logprobs_of(model, sequence, TEMPERATURE)
        ratio = torch.exp(now - torch.tensor(sequence["oldLogprobs"]))
        advantage = torch.tensor(sequence["advantages"])
        clipped = ratio.clamp(1 - CLIP_LOW, 1 + CLIP_HIGH)
        term = torch.minimum(ratio * advantage, clipped * advantage)
        total = total - (torch.tensor(sequence["mask"], dtype=torch.float32) * term).sum()
    return total


def supervised_loss(model, sequences) -> torch.Tensor:
    return -sum((torch.tensor(s["weights"]) * logprobs_of(model, s, 1.0)).sum() for s in sequences)


def add_policy_data(model, sequences) -> dict:
    """Old log-probabilities, advantages and masks, drawn until every branch of the clipped loss is taken twice."""
    with torch.no_grad():
        current = [logprobs_of(model, sequence, TEMPERATURE) for sequence in sequences]
    while True:
        branches = {"clipped above": 0, "clipped below": 0, "out of range, not clipped": 0, "in range": 0}
        for sequence, now in zip(sequences, current):
            old = now - (torch.rand(len(now)) * 1.2 - 0.6)
            advantages = torch.randn(len(now))
            if len(now) == 5:
                advantages[2] = 0
            mask = (torch.rand(len(now)) > 0.2).int()
            sequence.update(oldLogprobs=old.tolist(), advantages=advantages.tolist(), mask=mask.tolist())
            for ratio, advantage, counted in zip(torch.exp(now - old).tolist(), advantages.tolist(), mask.tolist()):
                above, below = ratio > 1 + CLIP_HIGH, ratio < 1 - CLIP_LOW
                if counted and above and advantage > 0:
                    branches["clipped above"] += 1
                elif counted and below and advantage < 0:
                    branches["clipped below"] += 1
                elif counted:
                    branches["out of range, not clipped" if above or below else "in range"] += 1
                # A ratio on the edge of the clip would make the golden gradient a matter of rounding.
                if min(abs(ratio - (1 - CLIP_LOW)), abs(ratio - (1 + CLIP_HIGH))) < 1e-3:
                    branches["in range"] = -1000
        if min(branches.values()) >= 2:
            tokens = sum(branches.values())
            clipped = branches["clipped above"] + branches["clipped below"]
            return {"tokens": tokens, "clippedShare": clipped / tokens}


def gradients(model, loss) -> dict[str, torch.Tensor]:
    """Gradients by name, the adapter's as PEFT names its file's tensors."""
    model.zero_grad()
    loss.backward()
    return {n.replace(".default", ""): p.grad.clone() for n, p in model.named_parameters() if p.grad is not None}


def norm_of(grads: dict[str, torch.Tensor]) -> float:
    return math.sqrt(sum(float((g.double() ** 2).sum()) for g in grads.values()))


def adam_steps(model, loss_of, weight_decay: float, max_norm: float, steps: int) -> list[dict[str, torch.Tensor]]:
    """The trained parameters after each step of clip_grad_norm_ and AdamW; weight decay is on every parameter."""
    model = copy.deepcopy(model)
    trained = {n.replace(".default", ""): p for n, p in model.named_parameters() if p.requires_grad}
    optimizer = torch.optim.AdamW(
        trained.values(),
        lr=ADAM["learningRate"],
        betas=(ADAM["beta1"], ADAM["beta2"]),
        eps=ADAM["epsilon"],
        weight_decay=weight_decay,
    )
    after = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss_of(model).backward()
        assert torch.nn.utils.clip_grad_norm_(trained.values(), max_norm) > max_norm
        optimizer.step()
        after.append({name: parameter.detach().clone() for name, parameter in trained.items()})
    return after


def nucleus_of(logits: torch.Tensor) -> dict:
    """The sampling distribution for one row of logits: tokens of the top-p nucleus and their log-probabilities."""
    scores = TopPLogitsWarper(TOP_P)(None, logits[None] / TEMPERATURE)[0]
    kept = torch.nonzero(torch.isfinite(scores))[:, 0]
    return {"tokens": kept.tolist(), "logprobs": torch.log_softmax(scores, -1)[kept].tolist()}


def make(name: str) -> None:
    torch.manual_seed(sum(name.encode()))
    folder = FIXTURES / name
    shutil.rmtree(folder, ignore_errors=True)
    base = MODELS[name]().float().eval()
    randomise(base)
    base.save_pretrained(folder)
    (folder / "generation_config.json").unlink(missing_ok=True)

    options = LoraConfig(r=4, lora_alpha=8, lora_dropout=0.0, target_modules=PROJECTIONS, task_type="CAUSAL_LM")
    adapted = get_peft_model(copy.deepcopy(base), options).eval()
    with torch.no_grad():
        for parameter_name, parameter in adapted.named_parameters():
            if "lora_B" in parameter_name:
                parameter.normal_(0, 0.15)
    adapted.peft_config["default"].base_model_name_or_path = name
    adapted.save_pretrained(folder / "adapter")
    (folder / "adapter" / "README.md").unlink()
    sort_lists(folder / "adapter" / "adapter_config.json")

    sequences = make_sequences()
    tensors: dict[str, torch.Tensor] = {}
    for index, sequence in enumerate(sequences):
        sequence["weights"] = [round(w, 3) for w in torch.rand(len(sequence["completion"])).tolist()]
        with torch.no_grad():
            for kind, model in (("base", base), ("adapter", adapted)):
                tensors[f"logits.{kind}.{index}"] = logits_of(model, sequence)
                sequence[f"{kind}Logprobs"] = logprobs_of(model, sequence, TEMPERATURE).tolist()
    sequences[3]["weights"][1] = 0
    policy = add_policy_data(adapted, sequences)

    loss = policy_loss(adapted, sequences)
    grads = gradients(adapted, loss)
    assert len(grads) == 2 * 7 * SIZES["num_hidden_layers"]
    policy.update(loss=loss.item(), clipLow=CLIP_LOW, clipHigh=CLIP_HIGH, temperature=TEMPERATURE, gradNorm=norm_of(grads))
    tensors.update({f"policy.grad.{n}": g for n, g in grads.items()})

    max_norm = round(policy["gradNorm"] / 10, 3)
    for decay in (0.0, 0.1):
        steps = adam_steps(adapted, lambda model: policy_loss(model, sequences), decay, max_norm, steps=2)
        for number, parameters in enumerate(steps, 1):
            tensors.update({f"policy.adam.wd{decay}.step{number}.{n}": p for n, p in parameters.items()})

    loss = supervised_loss(adapted, sequences)
    lora_grads = gradients(adapted, loss)
    tensors.update({f"supervised.grad.{n}": g for n, g in lora_grads.items()})
    base_loss = supervised_loss(base, sequences)
    full_grads = gradients(base, base_loss)
    full = {f"supervised.grad.{n}": g for n, g in full_grads.items()}
    full_max_norm = round(norm_of(full_grads) / 10, 3)
    (stepped,) = adam_steps(base, lambda model: supervised_loss(model, sequences), 0.1, full_max_norm, steps=1)
    full.update({f"supervised.adam.wd0.1.step1.{n}": p for n, p in stepped.items()})

    golden = {
        "versions": {"torch": str(torch.__version__), "transformers": transformers.__version__, "peft": peft.__version__},
        "temperature": TEMPERATURE,
        "sequences": sequences,
        "policy": policy,
        "policyAdam": {**ADAM, "maxGradNorm": max_norm},
        "supervised": {
            "tokens": sum(w != 0 for s in sequences for w in s["weights"]),
            "adapter": {"loss": loss.item(), "gradNorm": norm_of(lora_grads)},
            "base": {"loss": base_loss.item(), "gradNorm": norm_of(full_grads)},
        },
        "supervisedBaseAdam": {**ADAM, "weightDecay": 0.1, "maxGradNorm": full_max_norm},
        "nucleus": {
            "topP": TOP_P,
            "temperature": TEMPERATURE,
            # For the last position of each sequence, from the adapter's logits.
            "lastPosition": [nucleus_of(tensors[f"logits.adapter.{i}"][-1]) for i in range(len(sequences))],
        },
    }
    (folder / "golden.json").write_text(json.dumps(golden, indent=1) + "\n")
    contiguous = lambda group: {n: t.detach().contiguous().clone() for n, t in group.items()}
    save_file(contiguous(tensors), folder / "golden.safetensors")
    save_file(contiguous(full), folder / "golden-full.safetensors")
    check(name, folder, sequences, tensors)
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            size = path.stat().st_size
            assert size < 300_000, (path, size)
            print(f"{size:8d} {path.relative_to(FIXTURES)}")


def sort_lists(path: Path) -> None:
    """PEFT keeps target modules in a set: sorted, the file is the same on every run."""
    config = json.loads(path.read_text())
    config["target_modules"] = sorted(config["target_modules"])
    path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")


def check(name, folder, sequences, tensors) -> None:
    """What was saved, loaded again, gives the same logits: the fixture is what it says."""
    kind = type(MODELS[name]())
    loaded = kind.from_pretrained(folder, attn_implementation="eager", dtype=torch.float32).eval()
    adapted = PeftModel.from_pretrained(copy.deepcopy(loaded), folder / "adapter").eval()
    with torch.no_grad():
        for index, sequence in enumerate(sequences):
            for key, model in (("base", loaded), ("adapter", adapted)):
                assert torch.allclose(logits_of(model, sequence), tensors[f"logits.{key}.{index}"], atol=1e-6)
    saved = load_file(folder / "golden.safetensors")
    assert saved.keys() == tensors.keys()


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    for model_name in MODELS:
        make(model_name)
