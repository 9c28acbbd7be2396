"""The slow way: every position's logits of a whole text, computed at once and from nothing."""

import numpy as np
import onnxruntime as ort


class Reference:
    """A prepared model without slots, chunks or reuse."""

    def __init__(self, folder):
        self.config = folder.config
        self.session = ort.InferenceSession(folder.graph_path, providers=["CPUExecutionProvider"])

    def logits(self, ids):
        """Float64 (S, vocab_size)."""
        config, size = self.config, len(ids)
        empty = np.zeros((1, config.num_kv_heads, size, config.head_dim), np.float32)
        feeds = {
            "input_ids": np.array([ids]),
            "position_ids": np.arange(size)[None],
            "seqlens_k": np.array([size - 1], np.int32),
            "total_sequence_length": np.array(size, np.int32),
            "logits_index": np.arange(size),
        }
        for layer in range(config.num_layers):
            feeds[f"past_key_values.{layer}.key"] = empty
            feeds[f"past_key_values.{layer}.value"] = empty
        (logits,) = self.session.run(["logits"], feeds)
        return logits[:, : config.vocab_size].astype(np.float64)

    def logprobs(self, ids):
        """The same, normalized."""
        logits = self.logits(ids)
        shifted = logits - logits.max(axis=1, keepdims=True)
        return shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))

    def greedy(self, ids, count):
        """The next `count` most likely tokens, whatever they are."""
        ids = list(ids)
        for _ in range(count):
            ids.append(int(self.logits(ids)[-1].argmax()))
        return ids[-count:]
