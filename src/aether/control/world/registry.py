"""The embedded endpoint registry: what the nodes' agents report, held in this process.

Rules: a report is its node's whole truth and replaces that node's rows; a channel that is lost removes nothing; a row
without ports is refused, and said so.
"""

from collections.abc import Callable, Mapping

from aether.errors import Diagnostic
from aether.model.endpoint import EndpointRow, row_problem
from aether.model.facts import NodeReport


class EmbeddedRegistry:
    def __init__(self) -> None:
        self._rows_by_node: dict[str, tuple[EndpointRow, ...]] = {}
        self._refused_by_node: dict[str, tuple[Diagnostic, ...]] = {}
        self._wakes: list[Callable[[], None]] = []
        self._revision = 0

    @property
    def revision(self) -> int:
        """Grows with every change of the rows."""
        return self._revision

    def report(self, report: NodeReport) -> tuple[Diagnostic, ...]:
        """Take one node's report; what of it was refused."""
        judged = [(row, _problem(row, report.node)) for row in report.rows]
        good = tuple(sorted(row for row, problem in judged if problem is None))
        refused = tuple(sorted(problem for _, problem in judged if problem is not None))
        self._refused_by_node[report.node] = refused
        if self._rows_by_node.get(report.node, ()) != good:
            self._rows_by_node[report.node] = good
            self._revision += 1
            for wake in tuple(self._wakes):
                wake()
        return refused

    def forget(self, node: str) -> None:
        """Drop the rows of a node that left the mesh."""
        self.report(NodeReport(node=node))
        del self._rows_by_node[node], self._refused_by_node[node]

    def rows(self) -> tuple[EndpointRow, ...]:
        """Every row, sorted."""
        return tuple(sorted(row for rows in self._rows_by_node.values() for row in rows))

    def rows_by_node(self) -> Mapping[str, tuple[EndpointRow, ...]]:
        return dict(self._rows_by_node)

    def problems(self) -> tuple[Diagnostic, ...]:
        """What was refused of the nodes' last reports, sorted."""
        return tuple(sorted(problem for problems in self._refused_by_node.values() for problem in problems))

    def subscribe(self, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` after every change of the rows, until the returned function is called."""
        self._wakes.append(wake)
        return lambda: self._wakes.remove(wake)


def _problem(row: EndpointRow, node: str) -> Diagnostic | None:
    if row.node == node:
        return row_problem(row)
    return Diagnostic(
        code="bad-row",
        message=f"the endpoint is not served: node {node!r} reported it as {row.node!r}'s",
        where=node,
        subject=f"Pod {row.service.namespace}/{row.pod}",
        field="node",
        item=row.node,
    )
