"""Tiny random checkpoints of the supported architectures, built on the spot."""

import json
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM, PreTrainedModel

from tests.engine.tiny import write_tokenizer

SHAPE = {
    "vocab_size": 304,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 128,
    "bos_token_id": 0,
    "eos_token_id": 1,
    "pad_token_id": 2,
}
ONE_OF_EACH = ["sliding_attention", "full_attention"]
GPT2_SHAPE = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 128}

ARCHITECTURES: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {},
    "qwen3": {"head_dim": 16},
    "mistral": {"sliding_window": 5},
    "phi3": {},
    "gemma": {"head_dim": 8},
    "gemma2": {
        "head_dim": 16,
        "sliding_window": 5,
        "query_pre_attn_scalar": 24,
        "attn_logit_softcapping": 2.0,
        "final_logit_softcapping": 3.0,
    },
    "gemma3_text": {
        "head_dim": 16,
        "sliding_window": 5,
        "query_pre_attn_scalar": 24,
        "layer_types": ONE_OF_EACH,
    },
    "gpt2": GPT2_SHAPE,
    "gpt_neox": {},
    "opt": {"ffn_dim": 48, "word_embed_proj_dim": 32},
    "olmo2": {},
    "granite": {
        "attention_multiplier": 0.3,
        "embedding_multiplier": 3.0,
        "residual_multiplier": 0.4,
        "logits_scaling": 2.0,
    },
    "smollm3": {"no_rope_layers": [1, 0]},
    "stablelm": {},
    "gptj": {**GPT2_SHAPE, "rotary_dim": 4},
    "codegen": {**GPT2_SHAPE, "rotary_dim": 4},
    "gpt_neo": {
        "num_layers": 2,
        "attention_types": [[["global", "local"], 1]],
        "num_heads": 4,
        "window_size": 5,
    },
    "phi": {"num_key_value_heads": 4},
    "cohere": {"logit_scale": 0.5},
    "olmo": {},
    "helium": {"head_dim": 8},
    "glm": {"head_dim": 8},
    "nemotron": {"head_dim": 8},
    "qwen3_moe": {
        "head_dim": 8,
        "num_experts": 4,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 16,
        "decoder_sparse_step": 1,
    },
    "falcon": {"new_decoder_architecture": False, "multi_query": True},
    "gpt_bigcode": GPT2_SHAPE,
    "arcee": {},
}


def random_model(architecture: str, **overrides: Any) -> PreTrainedModel:
    """A model with weights large enough that attention is far from uniform."""
    torch.manual_seed(0)
    facts = {**SHAPE, **ARCHITECTURES.get(architecture, {}), **overrides}
    config = AutoConfig.for_model(architecture, **facts)
    model = AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
    for name, weight in model.named_parameters():
        if weight.ndim > 1:
            torch.nn.init.normal_(weight, std=0.3)
        elif "bias" in name:
            torch.nn.init.normal_(weight, std=0.1)
    return model


def write_checkpoint(folder: Path, architecture: str, **overrides: Any) -> PreTrainedModel:
    """Fill a folder as the hub would, weights and tokenizer; returns the model in it."""
    model = random_model(architecture, **overrides)
    model.save_pretrained(folder)
    write_tokenizer(folder)
    facts = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>", "eos_token": "</s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(facts))
    return model
