from aether.render.envoy import names
from aether.wire.xds import order
from aether.wire.xds.order import CLUSTER, ENDPOINT, LISTENER, ROUTE, RULES, SECRET, STEPS


def test_types_are_made_in_the_order_in_which_they_name_each_other() -> None:
    assert [step.type_url for step in STEPS if step.puts] == [CLUSTER, ENDPOINT, SECRET, LISTENER, ROUTE]


def test_clusters_and_secrets_are_removed_last_and_wait_for_who_names_them() -> None:
    last = [(step.type_url, step.waits_for) for step in STEPS if step.removes and not step.puts]
    assert last == [(CLUSTER, (LISTENER, ROUTE)), (SECRET, (LISTENER, CLUSTER))]


def test_every_wait_is_bounded() -> None:
    assert all(step.limit_s > 0 for step in STEPS if step.waits_for)


def test_every_type_with_removals_has_a_step_that_makes_them() -> None:
    assert {url for url, rule in RULES.items() if rule.sends_removals} == {s.type_url for s in STEPS if s.removes}


def test_a_message_holds_several_only_where_a_bad_one_leaves_the_good_ones_alone() -> None:
    assert {url for url, rule in RULES.items() if rule.chunk > 1} == {CLUSTER, LISTENER}


def test_types_are_called_as_the_renderer_calls_them() -> None:
    for name in ("CLUSTER", "ENDPOINT", "LISTENER", "ROUTE", "SECRET"):
        assert getattr(order, name) == getattr(names, name)
