"""What an ADS server has said and heard, counted."""

from aether.adapters.envoy.tally import Tally, TypeStatistics
from aether.wire.xds.message import DeltaRequest, Frame, SendResponse


def test_messages_resources_removals_and_answers_are_counted_by_type() -> None:
    tally = Tally()
    tally.streams_opened = 2
    frames = tuple(Frame(name=name, version="1", data=b"") for name in "ab")
    tally.count_response(SendResponse(type_url="cds", nonce="1", resources=frames, removed=("c",)))
    tally.count_response(SendResponse(type_url="lds", nonce="2"))
    tally.count_request(DeltaRequest(type_url="cds", nonce="1"))
    tally.count_request(DeltaRequest(type_url="cds", nonce="1", error="no"))
    tally.count_request(DeltaRequest(type_url="cds", subscribe=("d",)))
    statistics = tally.statistics(streams=1, held={"cds": 5, "rds": 1})
    assert (statistics.streams, statistics.streams_opened) == (1, 2)
    assert [one.type_url for one in statistics.types] == ["cds", "lds", "rds"]
    assert statistics.of("cds") == TypeStatistics(
        type_url="cds", messages=1, resources=2, removals=1, acked=1, nacked=1, held=5
    )
    assert statistics.of("sds") == TypeStatistics(type_url="sds")
