"""Single tokens in a row of a bitmask."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def set_bits(row: NDArray[np.int32], token_ids: Iterable[int]) -> None:
    """Allow tokens."""
    ids = np.fromiter(token_ids, np.int64)
    np.bitwise_or.at(row.view(np.uint32), ids >> 5, np.uint32(1) << (ids & 31).astype(np.uint32))


def clear_bits(row: NDArray[np.int32], token_ids: Iterable[int]) -> None:
    """Forbid tokens."""
    ids = np.fromiter(token_ids, np.int64)
    np.bitwise_and.at(
        row.view(np.uint32), ids >> 5, ~(np.uint32(1) << (ids & 31).astype(np.uint32))
    )


def has_bit(row: NDArray[np.int32], token_id: int) -> bool:
    """Whether a token is allowed."""
    return bool(row[token_id >> 5] >> (token_id & 31) & 1)
