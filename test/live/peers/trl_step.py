"""Seconds of one full-size step of the reference's stack: TRL's GRPOTrainer, PEFT LoRA, Hugging Face generation.

    python test/live/peers/trl_step.py --shape qwen2.5-1.5b > trl-step.json

The peer of bench/: the same shapes, lengths and batch, on random weights. A step drafts a board of notes for each
problem from the policy as it is (`generate` without gradients, as the reference does it before the trainer's own
turn), then the trainer generates the replies, pays them, and makes one update.

What TRL is given, so that the comparison is fair to it:
- bf16 weights and autocast (on a CPU single precision, which is faster there), adapters and optimiser in f32 (PEFT's and
  TRL's defaults), attention by PyTorch's fused kernels (`sdpa`), the KV cache, TRL's fused head (no logits of a whole reply in memory), no reference model (beta 0).
- All 48 notes, and all 48 replies, generated in one batch, their prompts of equal length, so nothing is padded. The KV
  cache is used, and watched: no pass but the first may be given more than one token a row.
- No attention by cuDNN while tokens are generated, unless `--cudnn-generation` says so: on Hopper PyTorch prefers it,
  but it makes a plan for each new number of keys, hence one at every token. Updates have what PyTorch prefers.
- Gradient checkpointing (TRL's default) on and off, with each micro-batch size asked for. What does not fit says so,
  and whole steps are timed with the fastest that did. The loss is the same for each, as all replies are equally long.
- Lengths are fixed by an end token that the model's head does not have: no logits processor is needed for it.
- Tokens are words apart by spaces, so text costs next to nothing. The logging of a step is off.
- `--generation continuous` uses transformers' paged continuous batching, which TRL's documentation offers, instead of
  plain `generate`.

First generation alone is timed for two numbers of new tokens, then updates on random tokens, then whole steps. A
straight line through the two gives seconds before the first token and seconds a token. With an update's seconds, a
whole step's are worked out of it, not measured (`workedOut`); they are known in a minute even where a whole step takes
many (`--repetitions 0` leaves whole steps out).

Times are host seconds between device synchronisations; the first step of each trainer warms up and is left out. `--out`
is written after each generation, update and step, with `complete` false until the end. In generation a line is printed
every 32 tokens. `generate` waits for the device at each token by itself, to see whether all rows have ended, so this
adds no synchronisation.
"""

import argparse
import contextlib
import copy
import gc
import json
import os
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
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
    PrinterCallback,
    Qwen2Config,
    TrainerCallback,
)
from trl import GRPOConfig, GRPOTrainer

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
        eos_token_id=None,
        tie_word_embeddings=True,
    ),
    # The built-in policy.
    "small": LlamaConfig(
        vocab_size=1024,
        hidden_size=128,
        intermediate_size=384,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=1,
        max_position_embeddings=2048,
        eos_token_id=None,
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
    parser.add_argument("--generation-lengths", default="16,64", help="tokens of generation timed alone; '' for none")
    parser.add_argument("--micro-batches", default="4,12,24,48", help="replies in one forward pass; '' for no updates")
    parser.add_argument("--checkpointing", default="off,on", help="gradient checkpointing: off, on, or both")
    parser.add_argument("--repetitions", type=int, default=3, help="whole steps, after one that warms up; 0 for none")
    parser.add_argument("--generation", choices=["plain", "continuous"], default="plain")
    parser.add_argument("--cudnn-generation", action="store_true", help="generate with what PyTorch prefers")
    parser.add_argument("--out", help="JSON goes there too, as far as it is known")
    return parser.parse_args()


def numbers(text: str) -> list[int]:
    return [int(one) for one in text.split(",") if one]


def tokenizer_of(vocabulary: int) -> PreTrainedTokenizerFast:
    """Tokens t0, t1, ... apart by spaces, and an end token one past what the model can say."""
    raw = Tokenizer(models.WordLevel({f"t{i}": i for i in range(vocabulary + 1)}, unk_token="t0"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    end = f"t{vocabulary}"
    return PreTrainedTokenizerFast(tokenizer_object=raw, eos_token=end, pad_token="t0", padding_side="left")


def words(ids: list[list[int]]) -> list[str]:
    return [" ".join(f"t{i}" for i in row) for row in ids]


def reader_tokens(options: argparse.Namespace) -> int:
    """Tokens of a reader's prompt."""
    return options.prompt_tokens + options.copies * options.note_tokens + options.read_tokens


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


@contextlib.contextmanager
def attention(cudnn: bool) -> Iterator[None]:
    """PyTorch's choice of attention, of cuDNN's only where `cudnn` is true."""
    before = torch.backends.cuda.cudnn_sdp_enabled()
    torch.backends.cuda.enable_cudnn_sdp(before and cudnn)
    try:
        yield
    finally:
        torch.backends.cuda.enable_cudnn_sdp(before)


@contextlib.contextmanager
def watched(model: torch.nn.Module, part: str, tokens: int) -> Iterator[dict]:
    """Lines during `generate`, whose pass `n` (from 0) begins when `n` tokens of each row are known to the host."""
    found, passes, start = {}, 0, time.perf_counter()

    def before(_module, _args, given: dict) -> None:
        nonlocal passes
        rows, width = given["input_ids"].shape
        assert passes == 0 or width == 1, f"generation without its cache: pass {passes} is given {width} tokens a row"
        seconds = time.perf_counter() - start
        if passes == 1:
            found["firstToken"] = seconds
        if passes > 0 and passes % 32 == 0:
            say(f"{part}: {passes} of {tokens} tokens, {rows * passes / seconds:.0f} tokens/s")
        passes += 1

    hook = model.register_forward_pre_hook(before, with_kwargs=True)
    try:
        yield found
    finally:
        hook.remove()


class BoardTrainer(GRPOTrainer):
    """GRPO over the board: notes are drafted from the policy as it is; every reader of a problem sees them all."""

    def prepare(self, options: argparse.Namespace, ended: Callable[[dict], None] | None) -> None:
        """`ended` is told of each generation; without it random tokens stand for what the model would say."""
        self.options, self.ended, self.clock = options, ended, Clock(options.device)
        self.configs = {
            "draft": GenerationConfig(
                do_sample=True,
                temperature=0.9,
                top_p=0.95,
                top_k=0,
                pad_token_id=self.processing_class.pad_token_id,
                eos_token_id=self.processing_class.eos_token_id,
                disable_compile=True,
            ),
            "read": self.generation_config,
        }

    def generated(self, part: str, prompts: list[list[int]], tokens: int) -> tuple[list[list[int]], float]:
        """`tokens` new ids for each prompt, by TRL's own call of `generate`, and its seconds."""
        if self.ended is None:
            return torch.randint(1, self.model.config.vocab_size, (len(prompts), tokens)).tolist(), 0.0
        self.generation_config = copy.deepcopy(self.configs[part])
        self.generation_config.max_new_tokens = tokens
        plain = self.options.generation == "plain"
        watch = watched(self.model.get_base_model(), part, tokens) if plain else contextlib.nullcontext({})
        start = self.clock.now()
        with attention(self.options.cudnn_generation), watch as found:
            completions, _ = super()._generate_single_turn(prompts, None, {}, 1)
        seconds = self.clock.now() - start
        assert {len(ids) for ids in completions} == {tokens}, "a reply ended early"
        self.ended(
            {
                "part": part,
                "rows": len(prompts),
                "promptTokens": len(prompts[0]),
                "newTokens": tokens,
                "seconds": seconds,
                "tokensPerSecond": len(prompts) * tokens / seconds,
            }
            | found
        )
        return completions, seconds

    def _generate_and_score_completions(self, inputs):
        asked = self.options
        copies = asked.copies
        assert len(inputs) == asked.problems * copies, "the trainer splits the step's rollouts"
        with self.clock.timed("draft"):
            prompts = self.processing_class(text=[row["prompt"] for row in inputs])["input_ids"]
            notes = words(self.generated("draft", prompts, asked.note_tokens)[0])
        read = " ".join(["t1"] * asked.read_tokens)
        boards = [" ".join(notes[i : i + copies]) for i in range(0, len(notes), copies)]
        inputs = [{**row, "prompt": f"{row['prompt']} {boards[i // copies]} {read}"} for i, row in enumerate(inputs)]
        return super()._generate_and_score_completions(inputs)

    def _generate_single_turn(self, prompt_ids, *_):
        expected = reader_tokens(self.options)
        assert {len(ids) for ids in prompt_ids} == {expected}, "a reader's prompt has another length than was asked for"
        with self.clock.timed("read"):
            return self.generated("read", prompt_ids, self.options.reply_tokens)[0], None

    def _prepare_inputs(self, batch):
        with self.clock.timed("prepare"):
            return super()._prepare_inputs(batch)

    def training_step(self, *given):
        with self.clock.timed("training_step"):
            return super().training_step(*given)


class Steps(TrainerCallback):
    """One row of seconds a step; the optimiser's share lies between the last backward pass and the step's end."""

    def __init__(self, clock: Clock, seen: Callable[[dict], None]):
        self.clock, self.seen, self.rows = clock, seen, []

    def found(self) -> dict:
        return {"warmUp": self.rows[0], "rows": self.rows[1:]}

    def on_step_begin(self, *_, **__):
        self.clock.seconds, self.start = {}, self.clock.now()

    def on_step_end(self, *_, **__):
        whole = self.clock.now() - self.start
        found = self.clock.seconds
        draft, read = found["draft"], found["read"]
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
        self.seen(self.found())


def reward(completion_ids, **_) -> list[float]:
    return [float(ids[0] % 2) for ids in completion_ids]


def fresh(
    options: argparse.Namespace,
    micro_batch: int,
    checkpointing: bool,
    count: int,
    ended: Callable[[dict], None] | None,
    use: Callable[[BoardTrainer], dict],
) -> dict:
    """What `use` finds with a fresh model and a trainer of `count` steps; an error where it does not fit."""
    torch.manual_seed(17)
    # A copy: a trainer turns the cache off in the config that its model holds, and a later model made from the same
    # config would generate without a cache.
    config = copy.deepcopy(SHAPES[options.shape])
    rows = options.problems * options.copies
    assert rows % micro_batch == 0, "a micro-batch divides the step's replies"
    cuda = options.device == "cuda"
    try:
        with torch.device(options.device):
            dtype = torch.bfloat16 if cuda else torch.float32
            model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="sdpa")
        prompts = torch.randint(1, config.vocab_size, (options.problems * count, options.prompt_tokens))
        with tempfile.TemporaryDirectory() as scratch:
            args = GRPOConfig(
                output_dir=scratch,
                seed=17,
                max_steps=count,
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
                bf16=cuda,
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
                train_dataset=Dataset.from_dict({"prompt": words(prompts.tolist())}),
                processing_class=tokenizer_of(config.vocab_size),
                peft_config=lora,
            )
            trainer.remove_callback(PrinterCallback)  # stdout is the answer's
            trainer.prepare(options, ended)
            if cuda:
                torch.cuda.reset_peak_memory_stats()
            found = use(trainer)
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


def steps(
    options: argparse.Namespace,
    micro_batch: int,
    checkpointing: bool,
    count: int,
    seen: Callable[[dict], None],
    ended: Callable[[dict], None] | None = None,
) -> dict:
    """Rows of `count` steps after one that warms up, without `ended` of updates on random tokens."""

    def use(trainer: BoardTrainer) -> dict:
        kept = Steps(trainer.clock, seen)
        trainer.add_callback(kept)
        trainer.train()
        return kept.found()

    return fresh(options, micro_batch, checkpointing, count + 1, ended, use)


def lines(options: argparse.Namespace, ended: Callable[[dict], None]) -> dict:
    """Of a draft and of a read the seconds before the first token, and a token, by two numbers of new tokens."""
    few, more = numbers(options.generation_lengths)
    rows = options.problems * options.copies

    def use(trainer: BoardTrainer) -> dict:
        found = {}
        for part, width in {"draft": options.prompt_tokens, "read": reader_tokens(options)}.items():
            prompts = torch.randint(1, trainer.model.config.vocab_size, (rows, width)).tolist()
            trainer.generated(part, prompts, 2)  # warms up
            short, long = (trainer.generated(part, prompts, tokens)[1] for tokens in (few, more))
            token = (long - short) / (more - few)
            found[part] = {"before": short - few * token, "token": token}
        return found

    return fresh(options, rows, False, 1, ended, use)


def worked_out(options: argparse.Namespace, line: dict, update: dict) -> dict:
    """A whole step's seconds from those of its parts, none of them measured in a whole step."""
    draft = line["draft"]["before"] + options.note_tokens * line["draft"]["token"]
    read = line["read"]["before"] + options.reply_tokens * line["read"]["token"]
    rest = update["step"] - update["draft"] - update["read"]
    how = "worked out, not measured: a straight line through two short generations, and an update on random tokens"
    return {"how": how, "draft": draft, "read": read, "update": rest, "step": draft + read + rest}


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def write(answer: dict, path: str) -> None:
    """Whole or not at all, so that a kill never leaves half a file."""
    with open(f"{path}.part", "w") as file:
        file.write(json.dumps(answer, indent=1) + "\n")
    os.replace(f"{path}.part", path)


def main() -> None:
    options = arguments()
    warnings.filterwarnings("ignore")
    if options.device == "cpu":
        torch.set_num_threads(1)
    answer = {
        "program": "trl",
        "complete": False,
        "options": vars(options),
        "device": torch.cuda.get_device_name() if options.device == "cuda" else "cpu",
        "versions": {name: version(name) for name in PACKAGES},
        "generations": [],
        "updates": [],
    }

    def keep(**more) -> None:
        answer.update(more)
        if options.out:
            write(answer, options.out)

    def ended(generation: dict) -> None:
        say(json.dumps(generation))
        keep(generations=[*answer["generations"], generation])

    if options.generation_lengths:
        keep(generationLines=lines(options, ended))
        say(json.dumps(answer["generationLines"]))
    for checkpointing in options.checkpointing.split(","):
        for micro_batch in numbers(options.micro_batches):
            found = steps(options, micro_batch, checkpointing == "on", count=1, seen=lambda _: None)
            seconds = found["rows"][0]["forwardBackward"] if "rows" in found else None
            one = {"microBatch": micro_batch, "checkpointing": checkpointing == "on", "forwardBackward": seconds}
            keep(updates=[*answer["updates"], one | found])
            say(f"{json.dumps(one)} {found.get('error', '')} {found.get('peakGiB', '')}")
    fitting = [one for one in answer["updates"] if one["forwardBackward"] is not None]
    if fitting:
        best = min(fitting, key=lambda one: one["forwardBackward"])
        keep(chosen={"microBatch": best["microBatch"], "checkpointing": best["checkpointing"]})
        if "draft" in answer.get("generationLines", {}):
            keep(workedOut=worked_out(options, answer["generationLines"], best["rows"][0]))
            say(json.dumps(answer["workedOut"]))
    if fitting and options.repetitions:
        chosen = [best["microBatch"], best["checkpointing"]]
        whole = steps(options, *chosen, options.repetitions, lambda found: keep(whole=found), ended)
        keep(whole=answer.get("whole", {}) | whole)
        if whole.get("rows"):
            keep(median={name: median(row[name] for row in whole["rows"]) for name in whole["rows"][0]})
        say(json.dumps(answer.get("median", whole)))
    keep(complete=True)
    print(json.dumps(answer, indent=1))


if __name__ == "__main__":
    main()
