"""Editing ONNX graphs: find, replace, cut. Core.

`onnx` gives protobuf messages, whose repeated fields can neither be searched nor replaced one by
one; this is the little that the rewrites need on top.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import AttributeProto, GraphProto, ModelProto, NodeProto, TensorProto, helper
from onnx import numpy_helper as arrays

#: operator set and file format that every part is written in; ONNX Runtime 1.17 reads both
_IR_VERSION = 9

Array = NDArray[np.generic]


class GraphError(ValueError):
    """The graph is not built as the rewrite expects."""


class Graph:
    """A model's graph with maps of who makes and who reads each tensor.

    Changes are kept as lists and written by `commit`; `nodes` may be changed in between.
    """

    def __init__(self, model: ModelProto) -> None:
        self.model = model
        self.nodes: list[NodeProto] = list(model.graph.node)
        self._initializers = {t.name: t for t in model.graph.initializer}
        self.refresh()

    def refresh(self) -> None:
        """Makes the maps anew after a change of `nodes`."""
        self._makers = {name: node for node in self.nodes for name in node.output if name}
        self._readers: dict[str, list[NodeProto]] = {}
        for node in self.nodes:
            for name in dict.fromkeys(node.input):
                self._readers.setdefault(name, []).append(node)

    # --- looking ------------------------------------------------------------------------------

    def all(self, *kinds: str) -> list[NodeProto]:
        """The nodes of these operator types, in order."""
        return [node for node in self.nodes if node.op_type in kinds]

    def maker(self, tensor: str, kind: str | None = None) -> NodeProto | None:
        """The node that makes `tensor`, if there is one (of this operator type)."""
        node = self._makers.get(tensor)
        return node if node is not None and kind in (None, node.op_type) else None

    def readers(self, tensor: str, kind: str | None = None) -> list[NodeProto]:
        """The nodes that read `tensor` (of this operator type)."""
        return [n for n in self._readers.get(tensor, []) if kind in (None, n.op_type)]

    def only_reader(self, tensor: str, kind: str) -> NodeProto | None:
        """The one node that reads `tensor`, if there is just one and it is of this type."""
        found = self.readers(tensor)
        return found[0] if len(found) == 1 and found[0].op_type == kind else None

    def value(self, tensor: str) -> Array | None:
        """The content of a constant."""
        found = self._initializers.get(tensor)
        return None if found is None else arrays.to_array(found)

    def constant(self, tensor: str) -> Array:
        """The content of a constant.

        Raises:
            GraphError: it is not one.
        """
        found = self.value(tensor)
        if found is None:
            raise GraphError(f"{tensor} is not a constant.")
        return found

    def needed(self, outputs: Iterable[str]) -> list[NodeProto]:
        """The nodes that these tensors depend on, in order."""
        wanted: set[int] = set()
        todo = list(outputs)
        while todo:
            node = self._makers.get(todo.pop())
            if node is not None and id(node) not in wanted:
                wanted.add(id(node))
                todo.extend(_reads(node))
        return [node for node in self.nodes if id(node) in wanted]

    # --- changing -----------------------------------------------------------------------------

    def add(self, name: str, content: Array | Sequence[int]) -> str:
        """Adds a constant, or replaces one of this name; gives its name."""
        if not isinstance(content, np.ndarray):
            content = np.array(content, dtype=np.int64)
        self._initializers[name] = arrays.from_array(np.ascontiguousarray(content), name)
        return name

    def replace(self, change: Callable[[NodeProto], Iterable[NodeProto] | None]) -> int:
        """Puts what `change` gives in the place of each node; None leaves it. Gives the count."""
        nodes: list[NodeProto] = []
        count = 0
        for node in self.nodes:
            new = change(node)
            nodes.extend([node] if new is None else new)
            count += new is not None
        self.nodes = nodes
        self.refresh()
        return count

    def commit(self, inputs: Sequence[onnx.ValueInfoProto] | None = None) -> ModelProto:
        """Writes the nodes back, in an order that runs, without what no output needs.

        Args:
            inputs: the graph's inputs from now on; those that nobody reads are left out.

        Raises:
            GraphError: the nodes form a circle, or read what nobody makes.
        """
        graph = self.model.graph
        kept = [] if inputs is None and not graph.input else list(inputs or graph.input)
        given = {value.name for value in kept} | set(self._initializers) | {""}
        nodes = _ordered(self.needed([o.name for o in graph.output]), given)
        used = {name for node in nodes for name in _reads(node)}
        used |= {output.name for output in graph.output}
        fresh = helper.make_graph(
            [_copy(node) for node in nodes],
            graph.name,
            [_copied(value) for value in kept if value.name in used],
            [_copied(value) for value in graph.output],
            [t for name, t in self._initializers.items() if name in used],
        )
        graph.CopyFrom(fresh)
        self.nodes = list(graph.node)
        self._initializers = {t.name: t for t in graph.initializer}
        self.refresh()
        return self.model


def cut(
    model: ModelProto,
    inputs: Sequence[onnx.ValueInfoProto],
    outputs: Sequence[onnx.ValueInfoProto],
    name: str,
) -> ModelProto:
    """The part of `model` between `inputs` and `outputs` as a model of its own.

    Raises:
        GraphError: the outputs need more than these inputs.
    """
    part = ModelProto()
    part.CopyFrom(model)
    part.ir_version = _IR_VERSION
    del part.opset_import[:]
    part.opset_import.extend(o for o in model.opset_import if o.domain in ("", "com.microsoft"))
    part.graph.name = name
    del part.graph.input[:]
    part.graph.input.extend(inputs)
    del part.graph.output[:]
    part.graph.output.extend(outputs)
    graph = Graph(part)
    stops = {value.name for value in inputs}
    graph.nodes = [node for node in graph.nodes if not stops & set(node.output)]
    graph.refresh()
    return graph.commit()


def values(name: str, *shape: int | str, kind: int = TensorProto.FLOAT) -> onnx.ValueInfoProto:
    """An input or output; text is a free dimension."""
    return helper.make_tensor_value_info(name, kind, shape)


def attributes(node: NodeProto) -> dict[str, object]:
    """The attributes of a node by name."""
    return {a.name: helper.get_attribute_value(a) for a in node.attribute}


def _reads(node: NodeProto) -> list[str]:
    names = list(node.input)
    for attribute in node.attribute:
        if attribute.type == AttributeProto.GRAPH:  # a branch reads tensors of the outer graph
            names += _outer(attribute.g)
    return names


def _outer(graph: GraphProto) -> list[str]:
    own = {name for node in graph.node for name in node.output} | {
        t.name for t in graph.initializer
    }
    names = [name for node in graph.node for name in _reads(node)]
    names += [output.name for output in graph.output]
    return [name for name in names if name not in own]


def _ordered(nodes: list[NodeProto], given: set[str]) -> list[NodeProto]:
    makers = {name: node for node in nodes for name in node.output}
    done: set[str] = set(given)
    ordered: list[NodeProto] = []
    placed: set[int] = set()
    for root in nodes:
        stack, waiting = [root], set[int]()
        while stack:
            node = stack[-1]
            if id(node) in placed:
                stack.pop()
                continue
            missing = [name for name in _reads(node) if name not in done]
            for name in missing:
                if name not in makers or id(makers[name]) in waiting:
                    raise GraphError(
                        f"{node.name or node.op_type} reads {name}, which is not made."
                    )
                stack.append(makers[name])
            waiting.add(id(node))
            if not missing:
                ordered.append(node)
                placed.add(id(node))
                done.update(node.output)
                stack.pop()
    return ordered


def _copy(node: NodeProto) -> NodeProto:
    fresh = NodeProto()
    fresh.CopyFrom(node)
    return fresh


def _copied(value: onnx.ValueInfoProto) -> onnx.ValueInfoProto:
    fresh = onnx.ValueInfoProto()
    fresh.CopyFrom(value)
    return fresh
