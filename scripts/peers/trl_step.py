"""Seconds of one full-size step of the reference's stack: TRL's GRPOTrainer, PEFT LoRA, Hugging Face generation.

    python scripts/peers/trl_step.py --shape qwen2.5-1.5b > trl-step.json

The peer of bench/: the same shapes, lengths and batch, on random weights. A step drafts a board of notes for each
problem from the policy as it is (`generate` without gradients, as the reference does it before the trainer's own
turn), then the trainer generates the replies, pays them, and makes one update.

What TRL is given, so that the comparison is fair to it:
- bf16 weights and autocast, adapters and optimiser in f32 (PEFT's and TRL's defaults), attention by PyTorch's fused
  kernels (`sdpa`), the KV cache, TRL's fused head (no logits of a whole reply in memory), no reference model (beta 0).
- All 48 notes, and all 48 replies, generated in one batch, their prompts of equal length, so nothing is padded.
- Gradient checkpointing (TRL's default) on and off, with each micro-batch size asked for. What does not fit says so,
  and whole steps are timed with the fastest that did. The loss is the same for each, as all replies are equally long.
- Lengths are fixed by an end token that the model's head does not have: no logits processor is needed for it.
- Tokens are words apart by spaces, so text costs next to nothing. The logging of a step is off.
- `--generation continuous` uses transformers' paged continuous batching, which TRL's documentation offers, instead of
  plain `generate`.

Times are host seconds between device synchronisations; the first step of each trainer warms up and is left out.
"""

import argparse
import contextlib
import gc
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from importlib.metadata import version
from statistics import median

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import torch
from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (
    AutoModelForCausalLM,
    GenerationConfig,
    LlamaConfig,
    PreTrainedTokenizerFast,
    Qwen2Config,
    TrainerCallback,
)
from trl import GRPOConfig, GRPOTrainer
from trl.models import unwrap_model_for_generation

SHAPES = {
    "qwen2.5-1.5b": Qwen2Config(
        vocab_size=151936,
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        max_position_embeddings=32768,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=True,
    ),
    "smollm2-135m": LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 1e5},
        tie_word_embeddings=True,
    ),
    "tiny": Qwen2Config(
        vocab_size=97,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
    ),
}
PACKAGES = ["torch", "transformers", "trl", "peft", "accelerate", "datasets"]
PROJECTIONS = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shape", choices=SHAPES, default="qwen2.5-1.5b")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--problems", type=int, default=12)
    parser.add_argument("--copies", type=int, default=4, help="notes, and readers, of a problem")
    parser.add_argument("--prompt-tokens", type=int, default=150, help="of a note's prompt")
    parser.add_argument("--note-tokens", type=int, default=256)
    parser.add_argument("--read-tokens", type=int, default=60, help="of a reader's prompt, beside problem and notes")
    parser.add_argument("--reply-tokens", type=int, default=384)
    parser.add_argument("--rank", type=int, default=32)
    parser.add_argument("--repetitions", type=int, default=3, help="whole steps timed, after one that warms up")
    parser.add_argument("--micro-batches", default="4,12,24,48", help="replies in one forward pass")
    parser.add_argument("--checkpointing", default="off,on", help="gradient checkpointing: off, on, or both")
    parser.add_argument("--generation", choices=["plain", "continuous"], default="plain")
    parser.add_argument("--out", help="JSON goes there too")
    return parser.parse_args()


def tokenizer_of(vocabulary: int) -> PreTrainedTokenizerFast:
    """Tokens t0, t1, ... apart by spaces, and an end token one past what the model can say."""
    raw = Tokenizer(models.WordLevel({f"t{i}": i for i in range(vocabulary + 1)}, unk_token="t0"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    end = f"t{vocabulary}"
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=end, pad_token="t0", padding_side="left")


def words(ids: torch.Tensor) -> list[str]:
    return [" ".join(f"t{i}" for i in row) for row in ids.tolist()]


class Clock:
    """Seconds by name, between synchronisations of the device."""

    def __init__(self, device: str):
        self.device, self.seconds = device, {}

    def now(self) -> float:
        if self.device == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter()

    def add(self, name: str, seconds: float) -> None:
        self.seconds[name] = self.seconds.get(name, 0.0) + seconds

    @contextlib.contextmanager
    def timed(self, name: str):
        start = self.now()
        yield
        self.add(name, self.now() - start)


class BoardTrainer(GRPOTrainer):
    """GRPO over the board: notes are drafted from the policy as it is; every reader of a problem sees them all."""

    def prepare(self, options: argparse.Namespace, clock: Clock, sampled: bool) -> None:
        """With `sampled` false random tokens stand for what the model would say: the update alone is timed."""
        self.options, self.clock, self.sampled = options, clock, sampled

    def draft(self, prompts: list[str]) -> list[str]:
        asked = self.options
        ids = self.processing_class(text=prompts)["input_ids"]
        inputs = torch.tensor(ids, device=self.accelerator.device)
        if not self.sampled:
            return words(torch.randint(1, self.model.config.vocab_size, (len(prompts), asked.note_tokens)))
        if asked.generation == "continuous":
            readers, self.generation_config = self.generation_config, self.notes_config()
            notes, _ = super()._generate_single_turn(ids, None, {}, 1)
            self.generation_config = readers
            return words(torch.tensor(notes))
        with (
            unwrap_model_for_generation(self.model_wrapped, self.accelerator) as model,
            torch.no_grad(),
        ):
            found = model.generate(
                input_ids=inputs, attention_mask=torch.ones_like(inputs), generation_config=self.notes_config()
            )
        return words(found[:, asked.prompt_tokens :])

    def notes_config(self) -> GenerationConfig:
        return GenerationConfig(
            max_new_tokens=self.options.note_tokens,
            do_sample=True,
            temperature=0.9,
            top_p=0.95,
            top_k=0,
            pad_token_id=self.processing_class.pad_token_id,
            eos_token_id=self.processing_class.eos_token_id,
            use_cache=True,
            disable_compile=True,
        )

    def _generate_and_score_completions(self, inputs):
        copies = self.options.copies
        assert len(inputs) == self.options.problems * copies, "the trainer splits the step's rollouts"
        with self.clock.timed("draft"):
            notes = self.draft([row["prompt"] for row in inputs])
        read = " ".join(["t1"] * self.options.read_tokens)
        boards = [" ".join(notes[i : i + copies]) for i in range(0, len(notes), copies)]
        inputs = [{**row, "prompt": f"{row['prompt']} {boards[i // copies]} {read}"} for i, row in enumerate(inputs)]
        return super()._generate_and_score_completions(inputs)

    def _generate_single_turn(self, prompt_ids, *rest):
        asked = self.options
        expected = asked.prompt_tokens + asked.copies * asked.note_tokens + asked.read_tokens
        assert {len(ids) for ids in prompt_ids} == {expected}, "a reader's prompt has another length than was asked for"
        if not self.sampled:
            shape = (len(prompt_ids), asked.reply_tokens)
            return torch.randint(1, self.model.config.vocab_size, shape).tolist(), None
        with self.clock.timed("read"):
            completions, logprobs = super()._generate_single_turn(prompt_ids, *rest)
        assert {len(ids) for ids in completions} == {asked.reply_tokens}, "a reply ended early"
        return completions, logprobs

    def _prepare_inputs(self, batch):
        with self.clock.timed("prepare"):
            return super()._prepare_inputs(batch)

    def training_step(self, *given):
        with self.clock.timed("training_step"):
            return super().training_step(*given)


class Steps(TrainerCallback):
    """One row of seconds a step; the optimiser's share lies between the last backward pass and the step's end."""

    def __init__(self, clock: Clock):
        self.clock, self.rows = clock, []

    def on_step_begin(self, *_, **__):
        self.clock.seconds, self.start = {}, self.clock.now()

    def on_step_end(self, *_, **__):
        whole = self.clock.now() - self.start
        found = self.clock.seconds
        draft, read = found.get("draft", 0.0), found.get("read", 0.0)
        self.rows.append(
            {
                "draft": draft,
                "read": read,
                "forwardBackward": found["training_step"] - found["prepare"],
                "optimiser": whole - found["training_step"],
                "other": found["prepare"] - draft - read,
                "step": whole,
            }
        )
        say(f"step {len(self.rows)}: {json.dumps(self.rows[-1])}")


def reward(completion_ids, **_) -> list[float]:
    return [float(ids[0] % 2) for ids in completion_ids]


def steps(options: argparse.Namespace, micro_batch: int, checkpointing: bool, count: int, sampled: bool) -> dict:
    """`count` steps after one that warms up, on a fresh model and trainer; an error where it does not fit."""
    torch.manual_seed(17)
    config = SHAPES[options.shape]
    rows = options.problems * options.copies
    assert rows % micro_batch == 0, "a micro-batch divides the step's replies"
    cuda = options.device == "cuda"
    clock = Clock(options.device)
    kept = Steps(clock)
    try:
        with torch.device(options.device):
            model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16, attn_implementation="sdpa")
        prompts = torch.randint(1, config.vocab_size, (options.problems * (count + 1), options.prompt_tokens))
        with tempfile.TemporaryDirectory() as scratch:
            args = GRPOConfig(
                output_dir=scratch,
                seed=17,
                max_steps=count + 1,
                per_device_train_batch_size=micro_batch,
                gradient_accumulation_steps=rows // micro_batch,
                num_generations=options.copies,
                max_completion_length=options.reply_tokens,
                temperature=0.9,
                top_p=1.0,
                top_k=0,
                loss_type="bnpo",
                scale_rewards="none",
                beta=0.0,
                epsilon=0.2,
                epsilon_high=0.28,
                learning_rate=1e-4,
                lr_scheduler_type="linear",
                warmup_steps=0,
                weight_decay=0.0,
                max_grad_norm=1.0,
                bf16=True,
                gradient_checkpointing=checkpointing,
                use_transformers_continuous_batching=options.generation == "continuous",
                use_cpu=not cuda,
                report_to=[],
                logging_strategy="no",
                save_strategy="no",
                disable_tqdm=True,
            )
            lora = LoraConfig(
                r=options.rank,
                lora_alpha=2 * options.rank,
                lora_dropout=0.0,
                target_modules=PROJECTIONS,
                task_type="CAUSAL_LM",
            )
            trainer = BoardTrainer(
                model=model,
                args=args,
                reward_funcs=reward,
                train_dataset=Dataset.from_dict({"prompt": words(prompts)}),
                processing_class=tokenizer_of(config.vocab_size),
                peft_config=lora,
                callbacks=[kept],
            )
            trainer.prepare(options, clock, sampled)
            if cuda:
                torch.cuda.reset_peak_memory_stats()
            trainer.train()
        found = {"rows": kept.rows[1:], "warmUp": kept.rows[0]}
        if cuda:
            found["peakGiB"] = torch.cuda.max_memory_allocated() / 2**30
        return found
    except torch.OutOfMemoryError:
        return {"error": "out of memory"}
    except Exception as error:
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"[:500]}
    finally:
        trainer = model = None
        gc.collect()
        if cuda:
            torch.cuda.empty_cache()


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def main() -> None:
    options = arguments()
    warnings.filterwarnings("ignore")
    if options.device == "cpu":
        torch.set_num_threads(1)
    tried = []
    for checkpointing in options.checkpointing.split(","):
        for micro_batch in map(int, options.micro_batches.split(",")):
            found = steps(options, micro_batch, checkpointing == "on", count=1, sampled=False)
            seconds = found["rows"][0]["forwardBackward"] if "rows" in found else None
            one = {"microBatch": micro_batch, "checkpointing": checkpointing == "on", "forwardBackward": seconds}
            tried.append(one | found)
            say(f"{json.dumps(one)} {found.get('error', '')} {found.get('peakGiB', '')}")
    fitting = [one for one in tried if one["forwardBackward"] is not None]
    answer = {
        "program": "trl",
        "options": vars(options),
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
        "versions": {name: version(name) for name in PACKAGES},
        "updates": tried,
    }
    if fitting:
        best = min(fitting, key=lambda one: one["forwardBackward"])
        chosen = {"microBatch": best["microBatch"], "checkpointing": best["checkpointing"]}
        whole = steps(options, best["microBatch"], best["checkpointing"], count=options.repetitions, sampled=True)
        rows = whole.get("rows", [])
        answer |= {"chosen": chosen, "whole": whole}
        if rows:
            answer["median"] = {name: median(row[name] for row in rows) for name in rows[0]}
        say(json.dumps(answer.get("median", whole)))
    text = json.dumps(answer, indent=1)
    if options.out:
        with open(options.out, "w") as file:
            file.write(text)
    print(text)


if __name__ == "__main__":
    main()
