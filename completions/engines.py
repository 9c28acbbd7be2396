"""The process's engine: which model it serves, and when it is made."""

import threading
from typing import TYPE_CHECKING

from completions.conf import settings
from completions.exceptions import NotFound
from engine.config import EngineConfig
from engine.errors import EngineUnavailable

if TYPE_CHECKING:
    from collections.abc import Callable

    # Its import loads ONNX Runtime, which `manage.py migrate` can do without.
    from engine.async_engine import AsyncEngine

DEFAULT_FILE = "default"
"""File in MODELS_DIR that names the default model."""

NO_MODEL = "No model is set up; make one with: manage.py prepare_model"


class EngineRegistry:
    """Makes the engine when it is first asked for, once per process.

    Never at import or in `AppConfig.ready`: those run for `migrate` too, and before a fork.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._engine: AsyncEngine | None = None
        self._model: str | None = None

    @property
    def current(self) -> "AsyncEngine | None":
        """The engine, if it was made."""
        return self._engine

    @property
    def model(self) -> str | None:
        """Name of the served model: that of the engine, or else what the settings say now."""
        return self._model or configured_model()

    def get(self) -> "AsyncEngine | None":
        """The engine, which starts to load if it is new; None if no model is set up."""
        with self._lock:
            if self._engine is None and (model := configured_model()):
                engine = _make_engine(model)
                engine.start()
                self._engine, self._model = engine, model
            return self._engine

    def close(self) -> None:
        """Stop the engine and forget it."""
        with self._lock:
            engine, self._engine, self._model = self._engine, None, None
        if engine:
            engine.stop()


registry = EngineRegistry()


def get_engine(name: str | None = None) -> "AsyncEngine":
    """The engine that serves a model's name or alias (None: the served model).

    Raises NotFound for a model that isn't served. The engine may still be loading; without any
    model to load there is none, which raises EngineUnavailable.
    """
    if name is not None and name not in served_names():
        raise NotFound(f"The model `{name}` does not exist.", "model")
    engine = registry.get()
    if engine is None:
        raise EngineUnavailable(NO_MODEL)
    return engine


def configured_model() -> str | None:
    """Name of the model to serve: MODEL, or what MODELS_DIR/default says."""
    if settings.MODEL:
        return str(settings.MODEL)
    try:
        return (settings.MODELS_DIR / DEFAULT_FILE).read_text().strip() or None
    except OSError:
        return None


def served_names() -> list[str]:
    """The served model's name and aliases."""
    return [registry.model, *settings.ALIASES] if registry.model else []


def _make_engine(name: str) -> "AsyncEngine":
    make: Callable[[EngineConfig], AsyncEngine] = settings.ENGINE
    return make(
        EngineConfig(
            model=settings.MODELS_DIR / name,
            provider=settings.PROVIDER,
            max_num_seqs=settings.MAX_NUM_SEQS,
            max_model_len=settings.MAX_MODEL_LEN,
            kv_cache_bytes=settings.KV_CACHE_BYTES,
            prefill_chunk=settings.PREFILL_CHUNK,
            max_waiting_requests=settings.MAX_WAITING_REQUESTS,
            max_waiting_tokens=settings.MAX_WAITING_TOKENS,
            num_threads=settings.NUM_THREADS,
            prefix_reuse=settings.PREFIX_REUSE,
            logprobs_mode=settings.LOGPROBS_MODE,
            guided_backends=settings.GUIDED_BACKENDS,
            guided_backend=settings.GUIDED_BACKEND,
        )
    )
