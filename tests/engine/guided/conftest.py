import pytest

from engine.guided.compiler import GrammarCompiler
from engine.sampling_params import GuidedParams
from tests.engine.guided.vocabulary import ByteVocabulary


@pytest.fixture(scope="session")
def vocabulary():
    return ByteVocabulary()


@pytest.fixture(scope="session")
def compiler(vocabulary):
    compiler = GrammarCompiler(vocabulary)
    yield compiler
    compiler.close()


@pytest.fixture
def compiled(compiler):
    """Compile a constraint and wait for it."""

    def compiled(kind, source, **fields):
        return compiler.compile(GuidedParams(kind, source, **fields)).result(60)

    return compiled
