"""Every kind of source becomes a model; interrupted, repeated and failed preparations."""

import json
import shutil
from contextlib import contextmanager, nullcontext

import gguf
import numpy as np
import onnx_ir as ir
import pytest

from engine.errors import ModelError, UnsupportedModel
from engine.export import export
from engine.prepare import prepare_model
from engine.source import parse_source
from engine.verify import run_prepared
from tests.engine.models import SHAPE, write_checkpoint
from tests.engine.tiny import NUM_HEADS

IDS = np.arange(5, 30)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    write_checkpoint(folder, "llama")
    return folder


@pytest.fixture(scope="module")
def prepared(checkpoint, tmp_path_factory):
    """The fp32 model that all other forms of this checkpoint are compared with."""
    return prepare(checkpoint, tmp_path_factory.mktemp("models"))


@pytest.fixture(scope="module")
def optimum_folder(checkpoint, tmp_path_factory):
    folder = tmp_path_factory.mktemp("optimum")
    export(parse_source(checkpoint), folder, "fp32")
    return folder


@pytest.fixture(scope="module")
def gguf_file(checkpoint, tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "tiny.gguf"
    write_gguf(path, checkpoint)
    return path


@pytest.fixture
def genai_folder(tiny_model, tmp_path):
    """What onnxruntime-genai's builder writes: the operator is there, and no config.json."""
    folder = tmp_path / "genai"
    folder.mkdir()
    model = ir.load(tiny_model.graph_path)
    take_attention_mask(model.graph)
    ir.save(model, folder / "model.onnx")
    for name in ("tokenizer.json", "special_tokens_map.json"):
        shutil.copy(tiny_model.path / name, folder)
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<s>"}
    (folder / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    config = tiny_model.config
    decoder = {"num_attention_heads": NUM_HEADS, "num_hidden_layers": config.num_layers}
    facts = {"type": "llama", "vocab_size": 304, "context_length": 256, "eos_token_id": [1, 7]}
    (folder / "genai_config.json").write_text(json.dumps({"model": {**facts, "decoder": decoder}}))
    return folder


def prepare(source, models_dir, *, name="tiny", precision="fp32", progress=nullcontext):
    return prepare_model(source, name, models_dir, precision, progress)


def take_attention_mask(graph):
    """Compute the lengths from a mask, and give the logits of all positions."""
    values = {value.name: value for value in graph.inputs}
    mask = ir.Value(name="attention_mask", type=ir.TensorType(ir.DataType.INT64))
    mask.shape = ir.Shape(["batch", "total"])

    def add(op_type, *inputs, **attributes):
        node = ir.node(op_type, inputs, attributes)
        graph.append(node)
        return node.outputs[0]

    def constant(*numbers):
        return add("Constant", value=ir.tensor(numbers, ir.DataType.INT64))

    counts = add("Sub", add("ReduceSum", mask, constant(1), keepdims=0), constant(1))
    total = add("Squeeze", add("Shape", mask, start=1), constant(0))
    for name, value in (("seqlens_k", counts), ("total_sequence_length", total)):
        values[name].replace_all_uses_with(add("Cast", value, to=ir.DataType.INT32))
        graph.inputs.remove(values[name])
    (gather,) = values["logits_index"].consumers()
    flatten = gather.inputs[0].producer()
    gather.outputs[0].replace_all_uses_with(flatten.inputs[0])
    graph.remove([gather, flatten], safe=True)
    graph.inputs.remove(values["logits_index"])
    graph.inputs.append(mask)
    (logits,) = [value for value in graph.outputs if value.name == "logits"]
    logits.shape = ir.Shape(["batch", "sequence", 304])
    graph.sort()


def write_gguf(path, checkpoint):
    """The checkpoint as llama.cpp stores it, with the rotary halves of its heads interleaved."""
    from safetensors.numpy import load_file

    weights = load_file(checkpoint / "model.safetensors")
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(SHAPE["max_position_embeddings"])
    writer.add_embedding_length(SHAPE["hidden_size"])
    writer.add_feed_forward_length(SHAPE["intermediate_size"])
    writer.add_block_count(SHAPE["num_hidden_layers"])
    writer.add_head_count(SHAPE["num_attention_heads"])
    writer.add_head_count_kv(SHAPE["num_key_value_heads"])
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e4)
    writer.add_vocab_size(SHAPE["vocab_size"])
    writer.add_license("apache-2.0")
    model = json.loads((checkpoint / "tokenizer.json").read_text())["model"]
    tokens = [*sorted(model["vocab"], key=model["vocab"].get), "<a>", "<b>", "<c>", "<d>"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([3, 3] + [1] * (len(tokens) - 2))
    writer.add_token_merges([" ".join(pair) for pair in model["merges"]])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    writer.add_eot_token_id(2)
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH.LLAMA, SHAPE["num_hidden_layers"])
    heads = {"q_proj": SHAPE["num_attention_heads"], "k_proj": SHAPE["num_key_value_heads"]}
    for name, weight in weights.items():
        count = heads.get(name.split(".")[-2])
        if count:
            halves = weight.reshape(count, 2, -1, weight.shape[1])
            weights[name] = halves.swapaxes(1, 2).reshape(weight.shape)
        stored = names.get_name(name, try_suffixes=(".weight",))
        writer.add_tensor(stored, np.ascontiguousarray(weights[name]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def test_checkpoint(prepared):
    config = prepared.config
    assert (config.architecture, config.precision, config.eos_token_ids) == ("llama", "fp32", (1,))
    assert (config.vocab_size, config.max_model_len) == (300, 128)


@pytest.mark.parametrize("kind", ["optimum_folder", "gguf_file"])
def test_other_forms_of_the_same_weights(kind, prepared, request, tmp_path):
    folder = prepare(request.getfixturevalue(kind), tmp_path)
    expected = run_prepared(prepared, IDS)
    np.testing.assert_allclose(run_prepared(folder, IDS), expected, atol=1e-4)


def test_facts_of_a_gguf_file(gguf_file, tmp_path):
    config = prepare(gguf_file, tmp_path).config
    assert (config.eos_token_ids, config.license, config.source) == (
        (1, 2),
        "apache-2.0",
        "tiny.gguf",
    )


def test_onnx_community_folder(optimum_folder, prepared, tmp_path):
    """The graph lies in a folder of its own, beside others."""
    source = tmp_path / "community"
    shutil.copytree(optimum_folder, source)
    (source / "onnx").mkdir()
    for file in source.glob("model.onnx*"):
        file.rename(source / "onnx" / file.name)
    (source / "onnx" / "model_q4.onnx").write_bytes(b"another precision")
    folder = prepare(source, tmp_path)
    np.testing.assert_allclose(run_prepared(folder, IDS), run_prepared(prepared, IDS), atol=1e-5)


def test_genai_folder(genai_folder, tiny_model, tmp_path):
    folder = prepare(genai_folder, tmp_path)
    expected = run_prepared(tiny_model, IDS)
    np.testing.assert_allclose(run_prepared(folder, IDS), expected, atol=1e-5)
    assert folder.config.eos_token_ids == (1, 7)
    assert folder.config.max_model_len == 256


@pytest.mark.parametrize(
    ("precision", "dtype"), [("fp16", "float16"), ("int8", "float32"), ("int4", "float32")]
)
def test_precisions(checkpoint, tmp_path, precision, dtype):
    config = prepare(checkpoint, tmp_path, precision=precision).config
    assert (config.precision, config.kv_dtype) == (precision, dtype)


def test_a_quantized_graph_keeps_its_precision(checkpoint, optimum_folder, tmp_path):
    quantized = prepare(checkpoint, tmp_path, name="int4", precision="int4")
    source = tmp_path / "quantized"
    shutil.copytree(quantized.path, source)
    for name in ("config.json", "tokenizer_config.json"):
        shutil.copy(optimum_folder / name, source)
    with pytest.raises(UnsupportedModel, match="4 bits already"):
        prepare(source, tmp_path, precision="int8")


def test_nothing_is_printed(checkpoint, tmp_path, capfd, recwarn, caplog):
    prepare(checkpoint, tmp_path, precision="int8")
    assert capfd.readouterr() == ("", "")
    assert not recwarn.list
    assert not caplog.records


class Steps:
    """A progress that notes the steps, and may interrupt one when it begins."""

    def __init__(self, stop_at=None, error=KeyboardInterrupt):
        self.names = []
        self.stop_at, self.error = stop_at, error

    @contextmanager
    def __call__(self, name):
        self.names.append(name)
        if name == self.stop_at:
            raise self.error
        yield


def test_same_source_again_does_nothing(checkpoint, tmp_path):
    first = prepare(checkpoint, tmp_path)
    steps = Steps()
    again = prepare(checkpoint, tmp_path, progress=steps)
    assert steps.names == []
    assert again.config == first.config


def test_changed_source_is_prepared_again(checkpoint, tmp_path):
    source = tmp_path / "source"
    shutil.copytree(checkpoint, source)
    first = prepare(source, tmp_path)
    write_checkpoint(source, "llama", rope_theta=500.0)
    second = prepare(source, tmp_path)
    assert first.config.recipe != second.config.recipe


def test_interrupted_goes_on_after_the_last_finished_step(checkpoint, tmp_path, monkeypatch):
    with pytest.raises(KeyboardInterrupt):
        prepare(checkpoint, tmp_path, precision="int8", progress=Steps("quantize"))
    assert not (tmp_path / "tiny").exists()
    assert not [*tmp_path.rglob("*.unfinished")]
    monkeypatch.setattr("engine.prepare.export", None)  # would fail if it were called
    monkeypatch.setattr("engine.prepare.rewrite", None)
    prepare(checkpoint, tmp_path, precision="int8")
    assert [each.name for each in tmp_path.iterdir()] == ["tiny"]


@pytest.mark.parametrize("error", [OSError("no space left"), ModelError("broken")])
@pytest.mark.parametrize("step", ["load", "export", "rewrite", "quantize", "verify"])
def test_failure_leaves_the_older_model_and_nothing_else(
    checkpoint, tmp_path, optimum_folder, step, error
):
    older = prepare(optimum_folder, tmp_path)
    with pytest.raises(ModelError):
        prepare(optimum_folder, tmp_path, precision="int8", progress=Steps(step, error))
    assert [each.name for each in tmp_path.iterdir()] == ["tiny"]
    assert older.config.precision == "fp32"
    run_prepared(older, IDS)


def test_wrong_logits_are_refused(checkpoint, tmp_path, monkeypatch):
    monkeypatch.setattr("engine.verify.TOLERANCES", {"fp32": 0.0})
    with pytest.raises(ModelError, match="differ"):
        prepare(checkpoint, tmp_path)
    assert not [*tmp_path.iterdir()]


def test_alibi_is_refused(tmp_path):
    write_checkpoint(tmp_path / "bloom", "bloom")
    with pytest.raises(UnsupportedModel, match="ALiBi"):
        prepare(tmp_path / "bloom", tmp_path)


def test_encoder_decoder_is_refused(tmp_path, checkpoint):
    source = tmp_path / "t5"
    shutil.copytree(checkpoint, source)
    (source / "config.json").write_text('{"model_type": "t5", "is_encoder_decoder": true}')
    with pytest.raises(UnsupportedModel, match="encoder-decoder"):
        prepare(source, tmp_path)


def test_missing_tokenizer_is_refused(tmp_path, checkpoint):
    source = tmp_path / "mute"
    shutil.copytree(checkpoint, source)
    for file in source.glob("*token*"):
        file.unlink()
    with pytest.raises(UnsupportedModel, match="tokenizer"):
        prepare(source, tmp_path)


def test_full_disk_is_refused(checkpoint, tmp_path, monkeypatch):
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr("shutil.disk_usage", lambda _: usage)
    with pytest.raises(ModelError, match="disk space"):
        prepare(checkpoint, tmp_path)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize("name", ["", ".hidden", "../out", "a/b/c", "a b"])
def test_impossible_names(checkpoint, tmp_path, name):
    with pytest.raises(ModelError, match="no model name"):
        prepare(checkpoint, tmp_path, name=name)
