"""What can go wrong in the engine, told apart by what the caller can do about it."""


class EngineError(Exception):
    """Base of every error that crosses the seam between the engine and its callers."""


class InvalidRequest(EngineError):
    """The request can never be served by this model; `param` names the field at fault."""

    def __init__(self, param: str, message: str) -> None:
        super().__init__(message)
        self.param = param
        self.message = message


class ContextOverflow(InvalidRequest):
    """Prompt and completion together are longer than the context (spec section 8)."""

    def __init__(self, max_model_len: int, prompt_tokens: int, max_tokens: int) -> None:
        super().__init__(
            "prompt",
            f"This model's maximum context length is {max_model_len} tokens. However, you "
            f"requested {prompt_tokens + max_tokens} tokens ({prompt_tokens} in the prompt, "
            f"{max_tokens} in the completion). Please reduce the length of the prompt or "
            "of the completion.",
        )


class EngineUnavailable(EngineError):
    """The engine takes no requests now (loading, draining, failed); `retry_after` in seconds."""

    def __init__(self, message: str, retry_after: int = 1) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class QueueFull(EngineUnavailable):
    """The bounded queue has no room for this request."""


class GenerationFailed(EngineError):
    """The request failed while it ran (a broken model, a fault in the engine)."""


class ModelError(EngineError):
    """A model can't be prepared or loaded; the message says why and what would help."""


class UnsupportedModel(ModelError):
    """The model has a feature that this engine does not implement; the message names it."""
