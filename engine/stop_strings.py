"""Finds stop strings in a text that comes in pieces."""


class StopStrings:
    """Cuts a text at the first stop string and holds back what may still become one.

    Of several, the earliest start wins, then the longer (spec section 4).
    """

    def __init__(self, stops: tuple[str, ...], *, include: bool) -> None:
        self._stops = stops
        self._include = include
        self._held = ""
        self._num_passed = 0
        self.found: str | None = None

    def pass_through(self, piece: str) -> str:
        """Take a piece in which a complete stop string must not fire; what may be released."""
        text = self._held + piece
        self._num_passed = len(text)
        return self._release(text)

    def push(self, piece: str) -> str:
        """Take a piece; what may be released. Nothing may follow once `found` is set."""
        text = self._held + piece
        hits = [
            (at, -len(stop), stop) for stop in self._stops if (at := self._find(text, stop)) >= 0
        ]
        if hits:
            start, _, self.found = min(hits)
            self._held = ""
            return text[: start + len(self.found)] if self._include else text[:start]
        return self._release(text)

    def flush(self) -> str:
        """What was held back, at the end."""
        held, self._held = self._held, ""
        return held

    def _find(self, text: str, stop: str) -> int:
        """Where a stop string begins that ends behind what was passed through."""
        return text.find(stop, max(0, self._num_passed - len(stop) + 1))

    def _release(self, text: str) -> str:
        """Hold the end back that begins a stop string; the rest."""
        size = len(text) - self._prefix_length(text)
        self._held = text[size:]
        self._num_passed = max(0, self._num_passed - size)
        return text[:size]

    def _prefix_length(self, text: str) -> int:
        """Length of the longest end of the text that begins a stop string."""
        longest = max(map(len, self._stops), default=1) - 1
        for size in range(min(longest, len(text)), 0, -1):
            if any(stop.startswith(text[-size:]) for stop in self._stops):
                return size
        return 0
