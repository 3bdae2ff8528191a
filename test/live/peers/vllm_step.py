"""Seconds that vLLM takes to draft and to read one full-size step, on random weights.

    python test/live/peers/vllm_step.py --shape qwen2.5-1.5b --out vllm-step.json

The stronger peer of bench/gpu.ts for sampling: the same shapes, lengths and batch as there and in trl_step.py, which has
the update. It needs a GPU; it was run with vLLM 0.22.0 and torch 2.11.0 on one NVIDIA H200, in Qwen2.5-1.5B's shape.

What vLLM is given: bfloat16, its own compilation and CUDA graphs, FlashAttention, and all copies of a prompt as one
request (`n`), so that the prompt is computed once. Prompts are random and never repeat, so its cache of prefixes has
nothing to find and is off. Lengths are fixed: no token ends a text, and no text is turned into words. Log-probabilities
of the sampled tokens are asked for, as training needs them. No adapter is loaded, and none is handed over from a
trainer: that is free here.

A read's seconds hold the computing of its prompts. Times are host seconds around `generate`; the first round warms up
and is left out. `--out` is written after each round, with `complete` false until the end.
"""

import argparse
import json
import os
import random
import sys
import tempfile
import time
import types
from importlib.machinery import ModuleSpec
from importlib.metadata import version
from statistics import median
from unittest.mock import MagicMock

# One process, so that a failure is seen; no network; the sampler that needs no compiler at hand; nothing compiled by an
# earlier run.
os.environ.update(
    VLLM_ENABLE_V1_MULTIPROCESSING="0",
    HF_HUB_OFFLINE="1",
    VLLM_NO_USAGE_STATS="1",
    VLLM_USE_FLASHINFER_SAMPLER="0",
    VLLM_ATTENTION_BACKEND="FLASH_ATTN",
    VLLM_DISABLE_COMPILE_CACHE="1",
)


class Stub(types.ModuleType):
    """A module in which every name is there and does nothing."""

    def __getattr__(self, name: str):
        if name.startswith("__"):
            raise AttributeError(name)
        value = MagicMock(name=f"{self.__name__}.{name}")
        setattr(self, name, value)
        return value


class Stubs:
    """Finds the packages it was told of, and all within them, as stubs."""

    def __init__(self, packages: set[str]):
        self.packages = packages

    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package=True) if name.split(".")[0] in self.packages else None

    def create_module(self, spec):
        module = Stub(spec.name)
        module.__path__ = []
        return module

    def exec_module(self, module):
        pass


# vLLM imports these when it starts, to hold output to a grammar, which nothing here asks for; a machine without them (or
# whose builds of them do not fit) need not have them. What else turns out to be missing is stubbed too: the program then
# begins again, since half of vLLM is imported by that time.
STRUCTURED_OUTPUT = "llguidance,xgrammar,outlines_core,lmformatenforcer"
stubs = Stubs(set(filter(None, os.environ.get("STUBS", STRUCTURED_OUTPUT).split(","))))
sys.meta_path.insert(0, stubs)


def again(error: ModuleNotFoundError) -> None:
    package = (error.name or "").split(".")[0]
    if not package or package in stubs.packages or package == "vllm":
        raise error
    say(f"missing: {error.name}")
    os.environ["STUBS"] = ",".join(stubs.packages | {package})
    os.execv(sys.executable, [sys.executable, *sys.argv])


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--shape", choices=["qwen2.5-1.5b", "smollm2-135m"], default="qwen2.5-1.5b")
    parser.add_argument("--problems", type=int, default=12)
    parser.add_argument("--copies", type=int, default=4, help="notes, and readers, of a problem")
    parser.add_argument("--prompt-tokens", type=int, default=150, help="of a note's prompt")
    parser.add_argument("--note-tokens", type=int, default=256)
    parser.add_argument("--read-tokens", type=int, default=60, help="of a reader's prompt, beside problem and notes")
    parser.add_argument("--reply-tokens", type=int, default=384)
    parser.add_argument("--repetitions", type=int, default=3, help="rounds, after one that warms up")
    parser.add_argument("--out", help="JSON goes there too, as far as it is known")
    return parser.parse_args()


options = arguments()
try:
    from vllm import LLM, SamplingParams
except ModuleNotFoundError as error:
    again(error)
from transformers import LlamaConfig, Qwen2Config

SHAPES = {
    "qwen2.5-1.5b": Qwen2Config(
        vocab_size=151936,
        hidden_size=1536,
        intermediate_size=8960,
        num_hidden_layers=28,
        num_attention_heads=12,
        num_key_value_heads=2,
        max_position_embeddings=4096,
        rms_norm_eps=1e-6,
        rope_parameters={"rope_type": "default", "rope_theta": 1e6},
        tie_word_embeddings=True,
        architectures=["Qwen2ForCausalLM"],
        torch_dtype="bfloat16",
    ),
    "smollm2-135m": LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=4096,
        rms_norm_eps=1e-5,
        rope_parameters={"rope_type": "default", "rope_theta": 1e5},
        tie_word_embeddings=True,
        architectures=["LlamaForCausalLM"],
        torch_dtype="bfloat16",
    ),
}


def write(answer: dict, path: str) -> None:
    """Whole or not at all, so that a kill never leaves half a file."""
    with open(f"{path}.part", "w") as file:
        file.write(json.dumps(answer, indent=1) + "\n")
    os.replace(f"{path}.part", path)


def main() -> None:
    config = SHAPES[options.shape]
    board_tokens = options.prompt_tokens + options.copies * options.note_tokens + options.read_tokens
    longest = max(options.prompt_tokens + options.note_tokens, board_tokens + options.reply_tokens)
    texts = options.problems * options.copies
    answer = {
        "program": "vllm",
        "complete": False,
        "options": vars(options),
        "versions": {name: version(name) for name in ["vllm", "torch", "transformers"]},
        "warmUp": None,
        "rows": [],
    }
    # The shape alone: vLLM makes its weights up.
    folder = os.path.join(tempfile.gettempdir(), f"vllm-step-{options.shape}")
    config.save_pretrained(folder)
    start = time.time()
    try:
        llm = LLM(
            model=folder,
            load_format="dummy",
            skip_tokenizer_init=True,
            dtype="bfloat16",
            gpu_memory_utilization=0.5,
            max_model_len=max(2048, longest),
            max_num_seqs=max(64, texts),
            enable_prefix_caching=False,
        )
    except ModuleNotFoundError as error:
        again(error)
    say(f"loaded in {time.time() - start:.1f} s")

    def generate(prompt_tokens: int, new_tokens: int, top_p: float) -> float:
        sampling = SamplingParams(
            n=options.copies,
            temperature=0.9,
            top_p=top_p,
            max_tokens=new_tokens,
            min_tokens=new_tokens,
            ignore_eos=True,
            detokenize=False,
            logprobs=0,
        )
        prompts = [
            {"prompt_token_ids": [random.randrange(1, config.vocab_size) for _ in range(prompt_tokens)]}
            for _ in range(options.problems)
        ]
        start = time.time()
        results = llm.generate(prompts, sampling, use_tqdm=False)
        seconds = time.time() - start
        assert sum(len(text.token_ids) for result in results for text in result.outputs) == texts * new_tokens
        return seconds

    for repetition in range(options.repetitions + 1):
        row = {
            "draft": generate(options.prompt_tokens, options.note_tokens, 0.95),
            "readWithPrefill": generate(board_tokens, options.reply_tokens, 1.0),
        }
        say(f"round {repetition}: {json.dumps(row)}")
        if repetition == 0:
            answer["warmUp"] = row
        else:
            answer["rows"].append(row)
            answer["median"] = {name: median(each[name] for each in answer["rows"]) for name in row}
        answer["complete"] = repetition == options.repetitions
        if options.out:
            write(answer, options.out)
    print(json.dumps(answer, indent=1))


if __name__ == "__main__":
    main()
