"""The same steps for other runtimes: an ONNX graph and a torch module, checked before they leave."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.core.inputs import check_names
from calibrant.core.links import softmax
from calibrant.core.programs import Program, Step
from calibrant.errors import CalibrantError, require

if TYPE_CHECKING:
    from calibrant.calibrators._base import Calibrator

#: Largest difference an export may show against `predict_proba`.
TOLERANCE = 1e-6


def probe(calibrator: Calibrator) -> Floats:
    """Scores to compare runtimes on: vague, sharp, tied and (for probabilities) exact zeros and ones."""
    k = calibrator.n_classes_
    rng = np.random.default_rng(0)
    logits = rng.normal(size=(48, k)) * np.repeat([0.1, 1.0, 4.0, 12.0], 12)[:, None]
    logits[0] = 0.0
    if calibrator.input_space == "logit":
        return np.asarray(logits)
    return np.concatenate([softmax(logits), np.eye(k)[: min(k, 8)]])


def _check(calibrator: Calibrator, scores: Floats, exported: Array, runtime: str, tolerance: float = TOLERANCE) -> None:
    gap = float(np.abs(calibrator.predict_proba(scores) - exported).max())
    if not gap <= tolerance:
        raise CalibrantError(
            f"the {runtime} export of {type(calibrator).__name__} differs from predict_proba by {gap:.2g}; "
            "nothing was exported. Hint: please report this."
        )


# -- torch ------------------------------------------------------------------------------------


def to_torch(calibrator: Calibrator, *, trainable: bool = False) -> Any:
    """Return a module that maps scores (n, K) or (n, K, …) to probabilities (to logits when it is trainable)."""
    torch = require("torch", "torch", "to_torch")
    from calibrant.calibrators._torch_module import CalibratorModule

    module = CalibratorModule(calibrator.program(), calibrator.n_classes_, type(calibrator).__name__, trainable)
    scores = probe(calibrator)
    with torch.no_grad():
        out = module(torch.from_numpy(scores))
        out = torch.softmax(out, dim=1) if trainable else out
    _check(calibrator, scores, out.numpy(), "torch", 1e-4 if trainable else TOLERANCE)  # parameters are float32
    return module.train(trainable)


# -- ONNX -------------------------------------------------------------------------------------


class _OnnxWriter:
    """Collects ONNX nodes and constants for a program."""

    def __init__(self, onnx: Any, n_classes: int) -> None:
        self.onnx = onnx
        self.n_classes = n_classes
        self.nodes: list[Any] = []
        self.initializers: list[Any] = []

    def constant(self, value: Any, dtype: Any = np.float64) -> str:
        name = f"c{len(self.initializers)}"
        self.initializers.append(self.onnx.numpy_helper.from_array(np.array(value, dtype=dtype), name))
        return name

    def node(self, op: str, *inputs: str, outputs: int = 1, pick: int = 0, **attributes: Any) -> str:
        names = [f"v{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(op, list(inputs), names, **attributes))
        return names[pick]

    def step(self, step: Step, x: list[str]) -> str:
        simple = {
            "add": "Add",
            "sub": "Sub",
            "mul": "Mul",
            "div": "Div",
            "greater": "Greater",
            "not_less": "GreaterOrEqual",
            "exp": "Exp",
            "log": "Log",
            "sqrt": "Sqrt",
            "maximum": "Max",
            "minimum": "Min",
            "where": "Where",
        }
        if step.op in simple:
            return self.node(simple[step.op], *x)
        match step.op:
            case "constant":
                return self.constant(step.arrays[0])
            case "sum":
                return self.node("ReduceSum", x[0], self.constant([1], np.int64), keepdims=1)
            case "max":
                return self.node("ReduceMax", x[0], self.constant([1], np.int64), keepdims=1)
            case "sigmoid":  # ONNX's own loses what is below 1e-16
                bottom = self.node("Exp", self.node("Neg", self.node("Abs", x[0])))
                top = self.node("Exp", self.node("Min", x[0], self.constant(0.0)))
                return self.node("Div", top, self.node("Add", bottom, self.constant(1.0)))
            case "cumsum":
                return self.node("CumSum", x[0], self.constant(1, np.int64))
            case "flip":
                ends = [self.constant([end], np.int64) for end in (-1, np.iinfo(np.int64).min, 1, -1)]
                return self.node("Slice", x[0], *ends)
            case "softmax":
                return self.node("Softmax", x[0], axis=1)
            case "log_softmax":
                return self.node("LogSoftmax", x[0], axis=1)
            case "matmul":
                return self.node("MatMul", x[0], self.constant(step.arrays[0]))
            case "columns":
                ends = [self.constant([step.options[key]], np.int64) for key in ("start", "stop")]
                return self.node("Slice", x[0], *ends, self.constant([1], np.int64))
            case "concat":
                return self.node("Concat", *x, axis=1)
            case "order":
                return self.order(x[0])
            case "rank":
                order = self.node("Cast", self.order(x[0]), to=self.onnx.TensorProto.DOUBLE)
                return self.order(self.node("Neg", order))
            case "take":
                return self.node("GatherElements", x[0], x[1], axis=1)
            case "search":
                return self.search(step, x[0])
            case _:
                return self.lookup(step.arrays[0], x[0])

    def order(self, x: str) -> str:
        width = self.node("Slice", self.node("Shape", x), self.constant([1], np.int64), self.constant([2], np.int64))
        return self.node("TopK", x, width, outputs=2, pick=1, axis=1, largest=1, sorted=1)

    def lookup(self, table: Floats, index: str) -> str:
        if table.ndim == 2:
            offset = self.constant(np.arange(len(table)) * table.shape[1], np.int64)
            index = self.node("Add", index, offset)
        return self.node("Gather", self.constant(table.ravel()), index, axis=0)

    def search(self, step: Step, x: str) -> str:
        """Binary search written out: one comparison per doubling of the number of knots."""
        knots = step.arrays[0]
        bits = int(knots.shape[-1]).bit_length()
        padded = np.full((*knots.shape[:-1], (1 << bits) - 1), np.inf)
        padded[..., : knots.shape[-1]] = knots
        compare = "GreaterOrEqual" if step.options["side"] == "right" else "Greater"
        place = self.node("Cast", self.node("Mul", x, self.constant(0.0)), to=self.onnx.TensorProto.INT64)
        for bit in reversed(range(bits)):
            candidate = self.node("Add", place, self.constant(1 << bit, np.int64))
            value = self.lookup(padded, self.node("Sub", candidate, self.constant(1, np.int64)))
            place = self.node("Where", self.node(compare, x, value), candidate, place)
        return place


def _onnx_model(onnx: Any, program: Program, calibrator: Calibrator, dtype: str) -> Any:
    k = calibrator.n_classes_
    writer = _OnnxWriter(onnx, k)
    double, outside = onnx.TensorProto.DOUBLE, onnx.TensorProto.FLOAT if dtype == "float32" else onnx.TensorProto.DOUBLE
    values = ["scores" if outside == double else writer.node("Cast", "scores", to=double)]
    for step in program.steps[1:]:
        values.append(writer.step(step, [values[i] for i in step.inputs]))
    answer = writer.node("Cast", values[-1], to=outside)
    writer.nodes[-1].output[0] = answer = "probabilities"
    graph = onnx.helper.make_graph(
        writer.nodes,
        type(calibrator).__name__,
        [onnx.helper.make_tensor_value_info("scores", outside, ["rows", k])],
        [onnx.helper.make_tensor_value_info(answer, outside, ["rows", k])],
        writer.initializers,
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9, producer_name="calibrant"
    )
    onnx.checker.check_model(model)
    return model


def to_onnx(calibrator: Calibrator, path: str | Path | None = None, *, dtype: str = "float64") -> bytes:
    """Return (and write) an ONNX model with input `scores` and output `probabilities`, both (rows, K) of one dtype.

    Steps are computed in float64 whatever goes in and out, so that a float32 network can be joined to it.
    """
    check_names(dtype, ("float32", "float64"), "dtype", "to_onnx")
    onnx = require("onnx", "onnx", "to_onnx")
    runtime = require("onnxruntime", "onnx", "to_onnx (to check the model it writes)")
    model = _onnx_model(onnx, calibrator.program(), calibrator, dtype).SerializeToString()
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    scores = probe(calibrator).astype(dtype)
    _check(calibrator, scores, session.run(None, {"scores": scores})[0], "ONNX")
    if path is not None:
        Path(path).write_bytes(model)
    return bytes(model)
