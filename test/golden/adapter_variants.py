"""Settings of PEFT's LoraConfig, by what they are for: those that this project honours, and those that it refuses.

test/golden/adapters.py makes small fixtures of them; test/live/peers compares them on other models.
"""

import copy

import torch
from peft import LoraConfig, get_peft_model
from peft.tuners.lora.config import BdLoraConfig, KasaConfig, MontecloraConfig, VeloraConfig

ATTENTION = ["q_proj", "v_proj"]

HONOURED = {
    "q-and-v": {"target_modules": ATTENTION},
    "rslora": {"target_modules": ["o_proj", "down_proj"], "use_rslora": True},
    "rank-pattern": {"target_modules": ATTENTION, "rank_pattern": {"q_proj": 3, "layers.1.self_attn.v_proj": 1}},
    "alpha-pattern": {"target_modules": ATTENTION, "alpha_pattern": {r"model\.layers\.1\..*": 7, "v_proj": 1}},
    "patterns-and-rslora": {
        "target_modules": ATTENTION,
        "rank_pattern": {"^model.layers.0.self_attn.q_proj": 4},
        "alpha_pattern": {r".*\.1\.self_attn\.(q|v)_proj": 5},
        "use_rslora": True,
    },
    "by-a-pattern": {"target_modules": r".*\.layers\.\d+\.self_attn\.(k|o)_proj"},
    "one-layer": {"target_modules": ["up_proj"], "layers_to_transform": [1], "layers_pattern": "layers"},
    "excluded": {"target_modules": ["gate_proj", "v_proj"], "exclude_modules": ["layers.0.mlp.gate_proj"]},
    "all-linear": {"target_modules": "all-linear", "r": 1},
    "gaussian": {"target_modules": ["k_proj"], "init_lora_weights": "gaussian"},
    "orthogonal": {"target_modules": ["k_proj"], "init_lora_weights": "orthogonal"},
    "not-a-no-op": {"target_modules": ["k_proj"], "init_lora_weights": False},
    "eva": {"target_modules": ["k_proj"], "init_lora_weights": "eva"},
    "mica": {"target_modules": ["k_proj"], "init_lora_weights": "mica"},
    "fan-in-fan-out": {"target_modules": ["k_proj"], "fan_in_fan_out": True},
    "by-default": {},
}

REFUSED = {
    "init_lora_weights": {"target_modules": ATTENTION, "init_lora_weights": "pissa"},
    "init_lora_weights, quickly": {"target_modules": ATTENTION, "init_lora_weights": "pissa_niter_4"},
    "init_lora_weights, orthonormal": {"target_modules": ATTENTION, "init_lora_weights": "olora"},
    "use_dora": {"target_modules": ATTENTION, "use_dora": True},
    "bias": {"target_modules": ATTENTION, "bias": "all"},
    "lora_bias": {"target_modules": ATTENTION, "lora_bias": True},
    "modules_to_save": {"target_modules": ATTENTION, "modules_to_save": ["lm_head"]},
    "layer_replication": {"target_modules": ATTENTION, "layer_replication": [[0, 2], [1, 2]]},
    "trainable_token_indices": {"target_modules": ATTENTION, "trainable_token_indices": [3, 4]},
    "target_parameters": {"target_modules": ATTENTION, "target_parameters": ["mlp.gate_proj.weight"]},
    "alora_invocation_tokens": {"target_modules": ATTENTION, "alora_invocation_tokens": [5, 6]},
    "use_qalora": {"target_modules": ATTENTION, "use_qalora": True, "qalora_group_size": 8},
    "use_bdlora": {"target_modules": ATTENTION, "use_bdlora": BdLoraConfig(target_modules_bd_a=["q_proj"], target_modules_bd_b=["v_proj"], nblocks=2)},
    "kasa_config": {"target_modules": ATTENTION, "kasa_config": KasaConfig()},
    "velora_config": {"target_modules": ATTENTION, "velora_config": VeloraConfig()},
    "monteclora_config": {"target_modules": ATTENTION, "monteclora_config": MontecloraConfig()},
}


def adapter_of(base, options: dict):
    """A copy of the base with an adapter of these settings on it, whose matrices are away from zero."""
    torch.manual_seed(17)
    settings = LoraConfig(**{"task_type": "CAUSAL_LM", "r": 2, "lora_alpha": 3, **copy.deepcopy(options)})
    model = get_peft_model(copy.deepcopy(base), settings)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name or not parameter.any():
                parameter.normal_(0, 0.3)
    return model
