"""The ``COMPLETIONS`` settings namespace: every key, its default and what it is for."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.conf import settings as django_settings
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.utils.module_loading import import_string

from completions.hints import did_you_mean

NAMESPACE = "COMPLETIONS"


@dataclass(frozen=True, slots=True)
class Setting:
    """One key: its default (or what computes it), a description, and how its value is read."""

    default: Any
    description: str
    is_import_string: bool = False
    is_path: bool = False


def _models_dir() -> Path:
    base = getattr(django_settings, "BASE_DIR", None)
    return Path(base or ".") / "var" / "models"


SETTINGS: Mapping[str, Setting] = {
    "MODELS_DIR": Setting(
        _models_dir,
        "Folder of the prepared models; `BASE_DIR / 'var' / 'models'` if not set.",
        is_path=True,
    ),
    "MODEL": Setting(
        None,
        "Name of the model to serve; `None`: the one that the file `MODELS_DIR/default` names.",
    ),
    "ALIASES": Setting((), "Other names under which the model is served."),
    "ENGINE": Setting(
        "engine.async_engine.AsyncEngine",
        "Dotted path of the engine: a callable that takes an `engine.config.EngineConfig`.",
        is_import_string=True,
    ),
    "PROVIDER": Setting(
        "auto", "`'cuda'`, `'cpu'`, or `'auto'`: CUDA where it loads, else the CPU."
    ),
    "NUM_THREADS": Setting(
        None, "Threads of the CPU provider; `None`: as many as there are cores."
    ),
    "MAX_NUM_SEQS": Setting(32, "Candidates that are generated at the same time."),
    "MAX_MODEL_LEN": Setting(
        None, "Context in tokens, below the model's own; `None`: the model's."
    ),
    "KV_CACHE_BYTES": Setting(None, "Memory for keys and values; `None`: a share of what is free."),
    "PREFILL_CHUNK": Setting(
        128, "Prompt tokens that are computed beside a running batch in a step."
    ),
    "PREFIX_REUSE": Setting(True, "Whether a prompt's known beginning is taken from the cache."),
    "MAX_WAITING_REQUESTS": Setting(1024, "Requests that may wait; one more is answered 503."),
    "MAX_WAITING_TOKENS": Setting(1_000_000, "Prompt tokens that may wait, all requests together."),
    "LOGPROBS_MODE": Setting(
        "raw", "`'raw'`: logprobs of the model; `'processed'`: of what was sampled from."
    ),
    "GUIDED_BACKENDS": Setting(
        {}, "More backends of guided decoding: dotted paths of their classes, by name."
    ),
    "GUIDED_BACKEND": Setting("llguidance", "The backend of requests that name none."),
    "UNKNOWN_FIELDS": Setting(
        "refuse", "`'refuse'` (422) or `'ignore'` (and log) fields that are not in the contract."
    ),
    "VALIDATION_STATUS": Setting(
        422, "Status of a schema error; 400 for clients that know only OpenAI's codes."
    ),
    "MAX_BODY_BYTES": Setting(16 << 20, "Size of a request body; one byte more is answered 413."),
    "MAX_CANDIDATES": Setting(1024, "Prompts times `best_of` in one request."),
    "MAX_PROMPT_LOGPROBS": Setting(20, "The largest `prompt_logprobs`."),
    "REQUEST_TIMEOUT": Setting(
        None,
        "Seconds that a completion may take with its wait; then it ends with 503. `None`: any.",
    ),
    "PING_SECONDS": Setting(15.0, "Silence of a stream after which a comment line is sent."),
    "DRAIN_SECONDS": Setting(30.0, "Time that running requests get to end at shutdown."),
    "LOG_REQUESTS": Setting(True, "Whether every request becomes a row of `RequestLog`."),
    "LOG_CONTENT": Setting(
        "full",
        "`'full'`, `'truncated'` (200 characters of each text) or `'none'`: what of prompts and "
        "completions the log keeps.",
    ),
    "LOG_REDACTOR": Setting(
        None,
        "Dotted path of a function from text to text that each logged text passes.",
        is_import_string=True,
    ),
    "LOG_MAX_AGE_DAYS": Setting(None, "Age at which rows of the log are deleted; `None`: never."),
    "LOG_MAX_ROWS": Setting(None, "Rows that the log keeps, the newest ones; `None`: all."),
    "LOG_COMMIT_SECONDS": Setting(
        1.0,
        "How long the end of an answer waits for its row to be stored, so that a crash loses none.",
    ),
    "LOG_QUEUE_SIZE": Setting(10_000, "Rows that may wait for the database; more are dropped."),
    "LOG_MAX_CHARACTERS": Setting(
        1_000_000, "Length at which a prompt or a completion is cut in the log."
    ),
}

_CHOICES: Mapping[str, tuple[Any, ...]] = {
    "PROVIDER": ("auto", "cuda", "cpu"),
    "LOGPROBS_MODE": ("raw", "processed"),
    "LOG_CONTENT": ("full", "truncated", "none"),
    "UNKNOWN_FIELDS": ("refuse", "ignore"),
    "VALIDATION_STATUS": (400, 422),
}


class Settings:
    """Attribute access to ``settings.COMPLETIONS``, with defaults; values are kept once read."""

    def __getattr__(self, name: str) -> Any:
        if name not in SETTINGS:
            raise AttributeError(f"{NAMESPACE} has no key {name!r}")
        value = self._read(name)
        self.__dict__[name] = value
        return value

    def reload(self) -> None:
        """Forget what was read."""
        self.__dict__.clear()

    def _read(self, name: str) -> Any:
        setting, given = SETTINGS[name], user_settings()
        check_keys(given)
        value = given[name] if name in given else _default(setting.default)
        allowed = _CHOICES.get(name)
        if allowed and value not in allowed:
            listed = ", ".join(map(repr, allowed))
            raise ImproperlyConfigured(f"{NAMESPACE}[{name!r}] must be one of {listed}.")
        if setting.is_import_string and isinstance(value, str):
            return import_string(value)
        return Path(value) if setting.is_path else value


def user_settings() -> Mapping[str, Any]:
    """What the site has set."""
    given: Mapping[str, Any] = getattr(django_settings, NAMESPACE, {})
    return given


def check_keys(given: Mapping[str, Any]) -> None:
    """Raise ImproperlyConfigured for a key that does not exist, naming the nearest one."""
    for name in given:
        if name not in SETTINGS:
            hint = did_you_mean(name, SETTINGS)
            raise ImproperlyConfigured(f"{NAMESPACE} has an unknown key {name!r}.{hint}")


def _default(default: Any | Callable[[], Any]) -> Any:
    return default() if callable(default) else default


def _reload(*, setting: str, **_: Any) -> None:
    if setting in (NAMESPACE, "BASE_DIR"):
        settings.reload()


settings = Settings()
setting_changed.connect(_reload)
