import pytest
from tests.unit.control.world.bench import StoreBench


@pytest.fixture
async def bench() -> StoreBench:
    bench = StoreBench()
    await bench.load()
    return bench
