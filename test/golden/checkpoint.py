"""Golden values for the checkpoint files, from PyTorch, numpy, safetensors and transformers.

  src/engine/checkpoint/fixtures/halves.json        float32 values as bits, and the same rounded to 16-bit formats
  src/engine/checkpoint/fixtures/mixed.safetensors  tensors of four dtypes, with the float32 values in mixed.json
  src/engine/fixtures/rope-llama3.json              inverse frequencies under Llama 3's RoPE scaling

Run: python test/golden/checkpoint.py
"""

import hashlib
import json
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

ENGINE = Path(__file__).resolve().parents[2] / "src" / "engine"
FOLDER = ENGINE / "checkpoint" / "fixtures"


def float32_cases() -> np.ndarray:
    """Bits of float32 values: zeros, infinities, random ones of every size, and neighbours of rounding ties."""
    rng = np.random.default_rng(7)
    special = np.array([0.0, -0.0, 1, -1, np.inf, -np.inf, 65504, 65519.996, 65520, -65520, 3.4e38], np.float32)
    sizes = (rng.standard_normal(300) * 2.0 ** rng.integers(-30, 20, 300)).astype(np.float32)
    anything = rng.integers(0, 2**32, 200, dtype=np.uint32).view(np.float32)
    halves = rng.integers(0, 2**15, 100, dtype=np.uint16)
    middles_f16 = (halves.view(np.float16).astype(np.float64) + (halves + 1).view(np.float16).astype(np.float64)) / 2
    middles_bf16 = ((halves.astype(np.uint32) << 16) | 0x8000).view(np.float32)
    values = np.concatenate([special, sizes, anything, middles_f16.astype(np.float32), middles_bf16])
    bits = values.view(np.uint32)
    bits = np.concatenate([bits, bits[-200:] + 1, bits[-200:] - 1])
    return bits[~np.isnan(bits.view(np.float32))]


def halves() -> None:
    bits = float32_cases()
    values = torch.from_numpy(bits.view(np.float32).copy())
    with np.errstate(over="ignore"):
        f16 = bits.view(np.float32).astype(np.float16)
    assert np.array_equal(f16.view(np.uint16), values.half().numpy().view(np.uint16))
    every_f16 = np.arange(2**16, dtype=np.uint32).astype(np.uint16).view(np.float16)
    every_f16 = every_f16[~np.isnan(every_f16)].astype(np.float32)
    (FOLDER / "halves.json").write_text(
        json.dumps(
            {
                "f32": bits.tolist(),
                "bf16": values.bfloat16().view(torch.uint16).tolist(),
                "f16": f16.view(np.uint16).tolist(),
                # Of the little-endian float32 values of every float16 that is not a NaN, in the order of their bits.
                "everyF16Sha256": hashlib.sha256(every_f16.tobytes()).hexdigest(),
            }
        )
        + "\n"
    )


def mixed() -> None:
    torch.manual_seed(3)
    tensors = {
        "a.float32": torch.randn(3, 4),
        "b.bfloat16": torch.randn(2, 3, 5).bfloat16(),
        "c.float16": torch.randn(7).half(),
        "d.int64": torch.arange(6).reshape(2, 3),
        "e.empty": torch.zeros(0, 4),
        "f.scalar": torch.tensor(2.5),
    }
    save_file(tensors, FOLDER / "mixed.safetensors", metadata={"format": "pt"})
    described = {
        name: {"shape": list(tensor.shape), "values": tensor.float().flatten().tolist()}
        for name, tensor in tensors.items()
    }
    (FOLDER / "mixed.json").write_text(json.dumps(described, indent=1) + "\n")


def rope() -> None:
    config = LlamaConfig(
        hidden_size=2048,
        num_attention_heads=32,
        max_position_embeddings=131072,
        rope_parameters={
            "rope_type": "llama3",
            "rope_theta": 500000.0,
            "factor": 32.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 8192,
        },
    )
    inverse = LlamaRotaryEmbedding(config).inv_freq
    golden = {"headDim": 64, "rope_parameters": config.rope_parameters, "invFreq": inverse.tolist()}
    (ENGINE / "fixtures" / "rope-llama3.json").write_text(json.dumps(golden, indent=1) + "\n")


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    halves()
    mixed()
    rope()
