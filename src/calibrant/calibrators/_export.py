"""The same steps for other runtimes: an ONNX graph and a torch module, checked before they leave."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from calibrant._typing import Array, Floats
from calibrant.calibrators._program import Program, Step
from calibrant.core.links import softmax
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


def _check(calibrator: Calibrator, scores: Floats, exported: Array, runtime: str) -> None:
    gap = float(np.abs(calibrator.predict_proba(scores) - exported).max())
    if not gap <= TOLERANCE:
        raise CalibrantError(
            f"the {runtime} export of {type(calibrator).__name__} differs from predict_proba by {gap:.2g}; "
            "nothing was exported. Hint: please report this."
        )


# -- torch ------------------------------------------------------------------------------------


def to_torch(calibrator: Calibrator) -> Any:
    """Return a module that maps scores (n, K) to probabilities with the same numbers in float64."""
    torch = require("torch", "torch", "to_torch")
    program = calibrator.program()

    class CalibratorModule(torch.nn.Module):  # type: ignore[misc,name-defined]  # torch is loaded late
        """A fitted calibrator as a torch module; float64 inside, differentiable where the map is."""

        def __init__(self) -> None:
            super().__init__()
            for i, step in enumerate(program.steps):
                for j, array in enumerate(step.arrays):
                    self.register_buffer(f"constant_{i}_{j}", torch.from_numpy(np.array(array)))

        def forward(self, scores: Any) -> Any:
            """Return calibrated probabilities of shape (n, K)."""
            values: list[Any] = []
            for i, step in enumerate(program.steps):
                constants = [getattr(self, f"constant_{i}_{j}") for j in range(len(step.arrays))]
                if step.op == "input":
                    values.append(scores.to(torch.float64))
                else:
                    values.append(_torch_step(torch, step, constants, [values[i] for i in step.inputs]))
            return values[-1]

    module = CalibratorModule().eval()
    scores = probe(calibrator)
    with torch.no_grad():
        _check(calibrator, scores, module(torch.from_numpy(scores)).numpy(), "torch")
    return module


def _torch_step(torch: Any, step: Step, constants: list[Any], x: list[Any]) -> Any:
    simple: dict[str, Callable[..., Any]] = {
        "add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div, "greater": torch.gt,
        "not_less": torch.ge, "exp": torch.exp, "log": torch.log, "sigmoid": torch.sigmoid,
        "maximum": torch.maximum, "minimum": torch.minimum, "where": torch.where,
    }
    if step.op in simple:
        return simple[step.op](*x)
    match step.op:
        case "constant":
            return constants[0]
        case "sum":
            return x[0].sum(dim=1, keepdim=True)
        case "max":
            return x[0].amax(dim=1, keepdim=True)
        case "cumsum":
            return torch.cumsum(x[0], dim=1)
        case "softmax":
            return torch.softmax(x[0], dim=1)
        case "log_softmax":
            return torch.log_softmax(x[0], dim=1)
        case "matmul":
            return x[0] @ constants[0]
        case "columns":
            return x[0][:, step.options["start"]:step.options["stop"]]
        case "concat":
            return torch.cat(x, dim=1)
        case "order":
            return torch.sort(x[0], dim=1, descending=True, stable=True).indices
        case "rank":
            order = torch.sort(x[0], dim=1, descending=True, stable=True).indices
            return torch.argsort(order, dim=1)
        case "take":
            return torch.gather(x[0], 1, x[1])
        case "search":
            return _torch_search(torch, constants[0], x[0], step.options["side"] == "right")
        case _:  # lookup
            table = constants[0]
            return table[x[0]] if table.ndim == 1 else table[torch.arange(len(table)), x[0]]


def _torch_search(torch: Any, knots: Any, x: Any, right: bool) -> Any:
    if knots.ndim == 1:
        return torch.searchsorted(knots, x.contiguous(), right=right)
    return torch.searchsorted(knots, x.T.contiguous(), right=right).T


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
            "add": "Add", "sub": "Sub", "mul": "Mul", "div": "Div", "greater": "Greater",
            "not_less": "GreaterOrEqual", "exp": "Exp", "log": "Log", "sigmoid": "Sigmoid", "maximum": "Max",
            "minimum": "Min", "where": "Where",
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
            case "cumsum":
                return self.node("CumSum", x[0], self.constant(1, np.int64))
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


def _onnx_model(onnx: Any, program: Program, calibrator: Calibrator) -> Any:
    k = calibrator.n_classes_
    writer = _OnnxWriter(onnx, k)
    values = ["scores"]
    for step in program.steps[1:]:
        values.append(writer.step(step, [values[i] for i in step.inputs]))
    answer = writer.node("Identity", values[-1])
    writer.nodes[-1].output[0] = answer = "probabilities"
    double = onnx.TensorProto.DOUBLE
    graph = onnx.helper.make_graph(
        writer.nodes, type(calibrator).__name__,
        [onnx.helper.make_tensor_value_info("scores", double, ["rows", k])],
        [onnx.helper.make_tensor_value_info(answer, double, ["rows", k])],
        writer.initializers,
    )
    model = onnx.helper.make_model(
        graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9, producer_name="calibrant"
    )
    onnx.checker.check_model(model)
    return model


def to_onnx(calibrator: Calibrator, path: str | Path | None = None) -> bytes:
    """Return (and write) an ONNX model with input `scores` and output `probabilities`, both float64 (rows, K)."""
    onnx = require("onnx", "onnx", "to_onnx")
    runtime = require("onnxruntime", "onnx", "to_onnx (to check the model it writes)")
    model = _onnx_model(onnx, calibrator.program(), calibrator).SerializeToString()
    session = runtime.InferenceSession(model, providers=["CPUExecutionProvider"])
    scores = probe(calibrator)
    _check(calibrator, scores, session.run(None, {"scores": scores})[0], "ONNX")
    if path is not None:
        Path(path).write_bytes(model)
    return bytes(model)
