from tests.support.delta_talk import frame

from aether.adapters.envoy.tally import Tally, TypeStatistics
from aether.wire.xds.message import DeltaRequest, SendResponse
from aether.wire.xds.order import CLUSTER, LISTENER


def test_messages_resources_and_answers_are_counted_by_type() -> None:
    tally = Tally()
    tally.streams_opened = 2
    tally.count_response(SendResponse(type_url=CLUSTER, nonce="1", resources=(frame("a=1"), frame("b=1"))))
    tally.count_response(SendResponse(type_url=CLUSTER, nonce="2", removed=("c",)))
    tally.count_request(DeltaRequest(type_url=CLUSTER))
    tally.count_request(DeltaRequest(type_url=CLUSTER, nonce="1"))
    tally.count_request(DeltaRequest(type_url=CLUSTER, nonce="2", error=""))
    statistics = tally.statistics(streams=1, held={CLUSTER: 2})
    assert (statistics.streams, statistics.streams_opened) == (1, 2)
    assert statistics.of(CLUSTER) == TypeStatistics(
        type_url=CLUSTER, messages=2, resources=2, removals=1, acked=1, nacked=1, held=2
    )
    assert statistics.of(LISTENER) == TypeStatistics(type_url=LISTENER)
