"""A tokenizer for tests: every byte, some words, a token that is half a character, two EOS."""

WORDS = [
    "true",
    "false",
    "null",
    '{"',
    '":',
    '", "',
    "yes",
    " yes",
    "no",
    "ab",
    "abc",
    "  ",
    "\n\n",
]
MULTIBYTE = [*"é我😁ぁん。", "ключ"]


class ByteVocabulary:
    def __init__(self):
        texts = [word.encode() for word in WORDS + MULTIBYTE]
        self.token_bytes = [
            *(bytes([i]) for i in range(256)),
            b"<|end|>",
            b"<|stop|>",
            *texts,
            "😁".encode()[:2],
            b"",
        ]
        self.eos_token_ids = (256, 257)
        self.vocab_size = len(self.token_bytes)
        self._longest_first = sorted(
            (i for i, token in enumerate(self.token_bytes) if token and i not in (256, 257)),
            key=lambda i: -len(self.token_bytes[i]),
        )

    def is_special(self, token_id):
        return token_id in self.eos_token_ids

    def encode(self, text, *, add_special_tokens=True):
        data, ids = text.encode(), []
        while data:
            ids.append(next(i for i in self._longest_first if data.startswith(self.token_bytes[i])))
            data = data[len(self.token_bytes[ids[-1]]) :]
        return ids
