"""What a command does not load before it needs it, and that it gets the real thing when it does."""

from __future__ import annotations

import gc
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from calibrant.cli import _later

LIGHT = "__all__ = ['early']\ndef early():\n    return 1\n"
#: Modules that would make a small evaluation wait, by what loads them for nothing.
HEAVY = (
    "numpy.testing._private",
    "numpy.f2py.crackfortran",
    "scipy.special._basic",
    "scipy.stats._stats_py",
    "pandas.core",
)
USES = {
    "scipy.special": "import scipy.special; assert scipy.special.comb(5, 2) == 10 and scipy.special.ndtr(0.0) == 0.5",
    "scipy.special by name": "from scipy.special import betainc, logsumexp; assert betainc(1, 1, 0.5) == 0.5",
    "scipy.stats": "import scipy.stats; assert scipy.stats.norm.cdf(0.0) == 0.5; import scipy.stats.qmc",
    "scipy.stats from within": "import scipy.stats.qmc; from scipy.stats import kstwo; assert kstwo.name == 'kstwo'",
    "a part first": "import numpy.f2py.crackfortran as c, pandas.api.types, scipy.stats._qmc as q; import numpy.f2py as f, scipy.stats as s; assert f.crackfortran is c and s._qmc is q and q.__spec__.origin and s.qmc.Sobol is q.Sobol",
    "numpy.testing": "import numpy as np; np.testing.assert_array_equal([1], [1]); import numpy.f2py.crackfortran",
    "pandas": "import pandas as pd; assert pd.DataFrame({'a': [1]}).a.sum() == 1 and pd.__version__; import pandas.api.types",
    "what kind of frame": """import narwhals.stable.v1 as nw, pandas, sys; asks = [nw.dependencies.is_pandas_dataframe]
try: import sklearn.utils._dataframe as newer; asks.append(newer.is_pandas_df_or_series)
except ImportError: pass  # scikit-learn 1.6, whose import loads pandas
first = 'pandas.core' in sys.modules
assert not any(ask([1]) for ask in asks) and ('pandas.core' in sys.modules) == first <= (len(asks) == 1); frame = pandas.DataFrame({'a': [1]})
assert all(ask(frame) for ask in asks) and nw.from_native(frame)['a'].sum() == 1""",
    "all of a module": "import scipy.special as s; names = s.__all__; assert 'softmax' in names and callable(s.softmax)",
    "what is not there": "import scipy.stats; assert not hasattr(scipy.stats, 'nothing') and scipy.stats.norm.name",
    "whole before the rest": "import sklearn.base, scipy.special as s; s.comb; import scipy.optimize, scipy.stats; scipy.stats.norm",
}


def _python(code: str, *words: str) -> str:
    done = subprocess.run(
        [sys.executable, "-W", "error::ImportWarning", "-c", code, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("use", USES)
def test_a_library_that_waits_is_whole_when_used(use: str) -> None:
    _python(f"from calibrant.cli._later import start_light\nstart_light()\n{USES[use]}")


def test_functions_of_the_light_part_are_those_of_the_library() -> None:
    names = _python(
        "from calibrant.cli._later import start_light\nstart_light()\nimport scipy.special as light\n"
        "early = {name: getattr(light, name) for name in ('ndtr', 'ndtri', 'betainc', 'gammaincinv', 'stdtrit')}\n"
        "light.softmax\nprint([name for name, one in early.items() if getattr(light, name) is not one])"
    )
    assert names.strip() == "[]"


def test_a_module_waits_until_a_name_is_asked_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """The same in this process, where its lines are counted: one library waits whole, one has a light part."""
    sources = {
        "waiting_whole": {"__init__": "from waiting_whole import inner\nvalue = inner.value", "inner": "value = 7"},
        "waiting_part": {"__init__": "from waiting_part._light import early\nrest = 2", "_light": LIGHT},
    }
    for name, files in sources.items():
        (tmp_path / name).mkdir()
        for file, code in files.items():
            (tmp_path / name / f"{file}.py").write_text(code, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    monkeypatch.setattr(_later, "_WAITING", {"waiting_whole": "", "waiting_part": "_light"})
    request.addfinalizer(lambda: [sys.modules.pop(name) for name in list(sys.modules) if name.startswith("waiting_")])
    thresholds = gc.get_threshold()
    request.addfinalizer(lambda: gc.set_threshold(*thresholds))
    _later.start_light()
    _later.start_light()  # a second time adds nothing
    assert len([finder for finder in sys.meta_path if isinstance(finder, _later._Finder)]) == 1

    part = import_module("waiting_part")
    assert part.early() == 1
    assert "rest" not in vars(part)
    assert part.rest == 2
    assert type(part) is ModuleType

    whole = import_module("waiting_whole")
    assert "waiting_whole.inner" not in sys.modules
    inner = import_module("waiting_whole.inner")  # loads its parent, which loads it: once
    assert whole.inner is inner is sys.modules["waiting_whole.inner"]
    assert (whole.value, inner.__spec__.origin) == (7, str(tmp_path / "waiting_whole" / "inner.py"))
    with pytest.raises(AttributeError, match="nothing"):
        whole.nothing  # noqa: B018


def test_two_threads_get_the_same_module() -> None:
    _python(
        "from calibrant.cli._later import start_light\nstart_light()\nimport scipy.stats\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "with ThreadPoolExecutor(4) as pool:\n    found = list(pool.map(lambda _: scipy.stats.norm, range(8)))\n"
        "assert len({id(one) for one in found}) == 1"
    )


def test_a_thread_that_loads_one_library_does_not_wait_for_another() -> None:
    """Two files that each use the other's waiting library while a thread loads them: one lock for all stood still."""
    _python(
        "import sys, threading\nfrom calibrant.cli import _later\n_later._WAITING.update(first='', second='')\n"
        "_later.start_light()\nimport tempfile, pathlib\nfolder = pathlib.Path(tempfile.mkdtemp())\n"
        "sys.path.insert(0, str(folder))\nmeet = sys.meet = threading.Barrier(2)\n"
        "(folder / 'first.py').write_text('import sys\\nsys.meet.wait()\\nimport plain\\nvalue = 1')\n"
        "(folder / 'second.py').write_text('value = 2')\n"
        "(folder / 'plain.py').write_text('import sys\\nsys.meet.wait()\\nimport second\\nsecond.value')\n"
        "import first\ntwo = threading.Thread(target=__import__, args=('plain',), daemon=True)\ntwo.start()\n"
        "one = threading.Thread(target=lambda: first.value, daemon=True)\none.start()\n"
        "one.join(20), two.join(20)\nassert not one.is_alive() and not two.is_alive()"
    )


def test_a_small_evaluation_and_a_fit_load_nothing_in_vain(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(3), 300)
    y = (rng.random((300, 1)) > p.cumsum(axis=1)).sum(axis=1)
    lines = [
        "label,p_0,p_1,p_2",
        *(f"{label}," + ",".join(map(repr, row)) for label, row in zip(y, p.tolist(), strict=True)),
    ]
    (tmp_path / "small.csv").write_text("\n".join(lines), encoding="utf-8")
    base = "import sys\nfrom calibrant.cli._later import start_light\nstart_light()\nimport sklearn.base\nprint(*sys.modules)"
    theirs = _python(base).split()  # scikit-learn 1.6 asks pandas for its names
    code = "import sys\nfrom calibrant.cli import main\ntry:\n    main()\nfinally:\n    print(*sorted(sys.modules))"
    for words in (["evaluate", "small.csv"], ["fit", "small.csv", "-o", "cal.json"]):
        words[1:2] = [str(tmp_path / "small.csv")]
        loaded = _python(code, *words[:2], *(str(tmp_path / w) if w == "cal.json" else w for w in words[2:])).split()
        assert "scipy.special._ufuncs" in loaded
        assert not [name for name in HEAVY if name in loaded and (words[0] == "evaluate" or name not in theirs)]
