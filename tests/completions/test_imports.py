"""What a serving process imports."""

import subprocess
import sys

SERVE = """
import sys
from pathlib import Path

import project.asgi  # django.setup, and all that answers requests
from engine.async_engine import AsyncEngine
from engine.config import EngineConfig

engine = AsyncEngine(EngineConfig(Path(sys.argv[1]), "cpu"))
engine.start()
engine.wait_until_ready(60)
engine.stop()
assert "onnxruntime" in sys.modules and "completions.consumers" in sys.modules
print(*{"torch", "transformers", "optimum", "onnx_ir"} & sys.modules.keys())
"""


def test_a_serving_process_imports_nothing_that_prepares_models(tiny_model):
    arguments = [sys.executable, "-c", SERVE, str(tiny_model.path)]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=100, check=False)
    assert (ended.returncode, ended.stdout) == (0, "\n"), ended.stderr
