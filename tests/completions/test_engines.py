import threading

import pytest

from completions import engines
from completions.exceptions import NotFound
from engine.errors import EngineUnavailable

from .fakes import FakeEngine


def test_engine_gets_the_settings(settings, tmp_path):
    settings.COMPLETIONS = {
        **settings.COMPLETIONS,
        "PROVIDER": "cpu",
        "MAX_NUM_SEQS": 3,
        "MAX_MODEL_LEN": 100,
        "KV_CACHE_BYTES": 1 << 20,
        "PREFILL_CHUNK": 16,
        "MAX_WAITING_REQUESTS": 5,
        "MAX_WAITING_TOKENS": 50,
        "NUM_THREADS": 2,
        "PREFIX_REUSE": False,
        "LOGPROBS_MODE": "processed",
        "GUIDED_BACKENDS": {"mine": "site.Backend"},
        "GUIDED_BACKEND": "mine",
    }
    config = engines.get_engine().config
    assert config.model == tmp_path / "fake"
    assert (config.provider, config.max_num_seqs, config.max_model_len) == ("cpu", 3, 100)
    assert (config.kv_cache_bytes, config.prefill_chunk, config.num_threads) == (1 << 20, 16, 2)
    assert (config.max_waiting_requests, config.max_waiting_tokens) == (5, 50)
    assert (config.prefix_reuse, config.logprobs_mode) == (False, "processed")
    assert (config.guided_backends, config.guided_backend) == ({"mine": "site.Backend"}, "mine")


def test_one_engine_for_all_names():
    assert engines.get_engine("fake") is engines.get_engine("alias") is engines.get_engine()
    assert engines.get_engine().state == "ready"


def test_unknown_name_makes_no_engine():
    with pytest.raises(NotFound, match="`nope`"):
        engines.get_engine("nope")
    assert engines.registry.current is None


def test_threads_get_one_engine(monkeypatch):
    made = []
    barrier = threading.Barrier(8)
    monkeypatch.setattr(FakeEngine, "start", lambda engine: made.append(engine.config))

    def get():
        barrier.wait()
        engines.get_engine()

    threads = [threading.Thread(target=get) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 1


def test_default_model_is_named_in_a_file(settings, tmp_path):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "MODEL": None}
    assert engines.served_names() == []
    with pytest.raises(EngineUnavailable, match="prepare_model"):
        engines.get_engine()
    (tmp_path / "default").write_text("chosen\n")
    assert engines.served_names() == ["chosen", "alias"]
    assert engines.get_engine("chosen").config.model == tmp_path / "chosen"


def test_served_name_stays_with_the_engine(settings, tmp_path):
    settings.COMPLETIONS = {**settings.COMPLETIONS, "MODEL": None}
    (tmp_path / "default").write_text("old")
    engines.get_engine()
    (tmp_path / "default").write_text("new")
    assert engines.served_names() == ["old", "alias"]


def test_close_stops_the_engine():
    engine = engines.get_engine()
    engines.registry.close()
    assert engine.state == "stopped"
    assert engines.registry.current is None
    engines.registry.close()
