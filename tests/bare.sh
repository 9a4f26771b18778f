#!/usr/bin/env bash
# A plain install has the whole command line on every file type, and the report.
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
"${PYTHON:-python3}" -m venv "$work/venv"
"$work/venv/bin/python" -m pip install --quiet --disable-pip-version-check .
cd "$work"
PATH="$work/venv/bin:$PATH"
python - <<'PY'
import numpy as np, polars as pl
rng = np.random.default_rng(0)
p = rng.dirichlet([1, 1, 1], 400)
y = np.array([rng.choice(3, p=row) for row in p])
np.savez("preds.npz", probs=p, labels=y)
frame = pl.DataFrame({f"p_{k}": p[:, k] for k in range(3)} | {"label": y})
frame.write_csv("preds.csv")
frame.lazy().sink_csv("packed.csv.zst", compression="zstd")
frame.write_parquet("preds.parquet")
PY
calibrant --help >/dev/null
for file in preds.npz preds.csv packed.csv.zst preds.parquet; do calibrant evaluate "$file" --resamples 50 | head -1; done
calibrant report preds.csv -o report.html --resamples 50
calibrant fit preds.csv --method temperature -o cal.json >/dev/null
calibrant apply cal.json preds.csv -o repaired.csv
calibrant evaluate repaired.csv --resamples 50 | head -1
test -s report.html
python - <<'PY'
import importlib.util
absent = [name for name in ("torch", "matplotlib", "pandas", "duckdb", "onnx", "pyspark") if importlib.util.find_spec(name)]
assert not absent, f"a plain install must not bring {absent}"
PY
echo "a plain install works"
