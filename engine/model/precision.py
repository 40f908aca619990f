"""Weights in single precision, whatever the published file has. Core.

Each takes a model, changes it in place, and gives the number of places it changed.
"""

from __future__ import annotations

import numpy as np
import onnx
from numpy.typing import NDArray
from onnx import NodeProto, TensorProto
from onnx.helper import make_node as node

from engine.model.graph import Array, Graph, GraphError


def to_float32(model: onnx.ModelProto) -> int:
    """Half-precision weights, casts and inputs to single precision. Exact: halves are floats."""
    count = 0
    for tensor in model.graph.initializer:
        if tensor.data_type == TensorProto.FLOAT16:
            content = onnx.numpy_helper.to_array(tensor).astype(np.float32)
            tensor.CopyFrom(onnx.numpy_helper.from_array(content, tensor.name))
            count += 1
    for item in model.graph.node:
        for attribute in item.attribute:
            if attribute.name == "to" and attribute.i == TensorProto.FLOAT16:
                attribute.i = TensorProto.FLOAT
                count += 1
            elif attribute.name == "value" and attribute.t.data_type == TensorProto.FLOAT16:
                content = onnx.numpy_helper.to_array(attribute.t).astype(np.float32)
                attribute.t.CopyFrom(onnx.numpy_helper.from_array(content))
                count += 1
    for value in (*model.graph.input, *model.graph.output, *model.graph.value_info):
        if value.type.tensor_type.elem_type == TensorProto.FLOAT16:
            value.type.tensor_type.elem_type = TensorProto.FLOAT
            count += 1
    return count


def dequantize(model: onnx.ModelProto) -> int:
    """ConvInteger, MatMulInteger and DynamicQuantizeLSTM to Conv, MatMul and LSTM.

    The weights are those that the integers stand for, exactly; what goes is the rounding of the
    activations, so this is nearer to the original model than the file it comes from.
    """
    graph = Graph(model)
    replaced: dict[int, list[NodeProto]] = {}
    for item in graph.all("ConvInteger", "MatMulInteger"):
        source = graph.maker(item.input[0], "DynamicQuantizeLinear")
        if source is None or graph.value(item.input[1]) is None:
            continue
        reader = graph.readers(item.output[0])[0]
        bias: list[str] = []
        if reader.op_type == "Add":  # the bias as integers; the float one is behind it
            bias = [_float_bias(graph, next(i for i in reader.input if i != item.output[0]))]
            reader = graph.readers(reader.output[0])[0]
        if reader.op_type != "Cast":
            raise GraphError(f"{item.name} is not followed by a Cast.")
        product = graph.readers(reader.output[0], "Mul")[0]
        scales = graph.maker(next(i for i in product.input if i != reader.output[0]), "Mul")
        if scales is None:
            raise GraphError(f"{item.name} has no scale.")
        scale = next(v for v in map(graph.value, scales.input) if v is not None)
        zero = graph.constant(item.input[3]) if len(item.input) > 3 else np.zeros(1, np.uint8)
        weights = graph.constant(item.input[1])
        per_output = (-1,) + (1,) * (weights.ndim - 1) if item.op_type == "ConvInteger" else (-1,)
        name = graph.add(
            f"{item.input[1]}_float",
            _real(weights, scale.reshape(per_output), zero.reshape(per_output)),
        )
        new = node(
            "Conv" if item.op_type == "ConvInteger" else "MatMul",
            [source.input[0], name, *bias],
            [product.output[0]],
            name=item.name,
        )
        new.attribute.extend(item.attribute)
        replaced[id(product)] = [new]
    for item in graph.all("DynamicQuantizeLSTM"):
        inputs = list(item.input[:8])
        for at, (scale_at, zero_at) in {1: (8, 9), 2: (10, 11)}.items():
            weights = graph.constant(item.input[at])
            scale, zero = (graph.constant(item.input[i]) for i in (scale_at, zero_at))
            shape = (len(weights), 1, -1)
            real = _real(weights, scale.reshape(shape), zero.reshape(shape)).transpose(0, 2, 1)
            inputs[at] = graph.add(f"{item.input[at]}_float", real)
        while not inputs[-1]:
            inputs.pop()
        new = node("LSTM", inputs, list(item.output), name=item.name)
        new.attribute.extend(item.attribute)
        replaced[id(item)] = [new]
    count = graph.replace(lambda item: replaced.get(id(item)))
    graph.commit()
    return count


def _real(weights: Array, scale: Array, zero: Array) -> NDArray[np.float32]:
    return (as_float(weights) - as_float(zero)) * as_float(scale)


def _float_bias(graph: Graph, tensor: str) -> str:
    maker = graph.maker(tensor)
    while maker is not None and maker.op_type != "Div":
        maker = graph.maker(maker.input[0])
    if maker is None:
        raise GraphError(f"{tensor} is not a quantized bias.")
    return str(maker.input[0])


def as_float(content: Array) -> NDArray[np.float32]:
    """The content in single precision, not copied if it is so already."""
    return content.astype(np.float32, copy=False)
