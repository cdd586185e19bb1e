from pathlib import Path

import pytest

from tools.check_purity import ROOT, check_source, main, pure_packages


def names_found(source: str) -> list[str]:
    return [finding.name for finding in check_source(source, "machine.py")]


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("import time", "time"),
        ("from time import monotonic_ns", "time.monotonic_ns"),
        ("import datetime\ndatetime.datetime.now()", "datetime.datetime.now"),
        ("from datetime import datetime as D\nD.now().year", "datetime.datetime.now"),
        ("from datetime import date\ndate.today()", "datetime.date.today"),
        ("import random", "random"),
        ("import numpy as np\nnp.random.normal()", "numpy.random.normal"),
        ("import numpy as np\nrng = np.random.default_rng()", "numpy.random.default_rng"),
        ("import numpy\nnumpy.random.seed(1)", "numpy.random.seed"),
        ("from numpy.random import default_rng", "numpy.random.default_rng"),
        ("from numpy import random", "numpy.random"),
        ("import secrets", "secrets"),
        ("import uuid\nuuid.uuid4()", "uuid.uuid4"),
        ("import os", "os"),
        ("from os import environ", "os.environ"),
        ("import socket as s", "socket"),
        ("import urllib.request", "urllib.request"),
        ("import logging", "logging"),
        ("open('x')", "builtins.open"),
        ("say = print", "builtins.print"),
        ("def f(path): return path.read_text()", "pathlib.Path.read_text"),
        ("from pathlib import Path\nPath.cwd()", "pathlib.Path.cwd"),
        ("import sys\nsys.stdout.write('x')", "sys.stdout.write"),
        ("def f():\n    import time", "time"),
    ],
)
def test_what_ties_a_decision_to_the_world_is_refused(source: str, name: str) -> None:
    assert names_found(source) == [name]


@pytest.mark.parametrize(
    "source",
    [
        "import numpy as np\ndef draw(rng: np.random.Generator) -> float: return rng.normal()",
        "from numpy.random import Generator",
        "from datetime import datetime, timedelta\nspan = timedelta(seconds=1)",
        "import uuid\ndef name(key: str) -> uuid.UUID: return uuid.uuid5(uuid.NAMESPACE_URL, key)",
        "from pathlib import PurePath\nname = PurePath('a').name",
        "import sys\nlimit = sys.maxsize",
        "def f(time: int, random: float, input: int) -> float: return time + random + input",
        "class Gate:\n    open: bool\n    def print(self) -> bool: return self.open",
        "from dure.domain import signals\nfrom . import select",
        "import math, heapq, dataclasses, itertools",
    ],
)
def test_what_a_decider_needs_is_allowed(source: str) -> None:
    assert names_found(source) == []


def test_a_finding_says_where_why_and_what_to_do() -> None:
    (finding,) = check_source("\nimport time\n", "machine.py")
    assert str(finding) == (
        "machine.py:2: `time` reads the clock, so the same events would not give the same decision"
        " twice; take `now_ns` from the event"
    )


def test_several_findings_come_in_order_of_lines() -> None:
    source = "import os\nimport time\nx = os.environ['A'], time.time()\n"
    found = [(finding.line, finding.name) for finding in check_source(source, "machine.py")]
    assert found == [(1, "os"), (2, "time"), (3, "os.environ"), (3, "time.time")]


def test_the_command_fails_on_an_impure_folder(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "machine.py").write_text("import time\n", encoding="utf-8")
    assert main([str(tmp_path)]) == 1
    assert "machine.py:1: `time`" in capsys.readouterr().out


def test_the_command_accepts_a_pure_folder(tmp_path: Path) -> None:
    (tmp_path / "machine.py").write_text("import math\n", encoding="utf-8")
    assert main([str(tmp_path)]) == 0


def test_a_folder_that_is_not_there_is_not_called_pure(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="no such folder"):
        main([str(tmp_path / "nowhere")])


def test_the_domain_and_the_deciders_are_declared_pure() -> None:
    declared = {path.relative_to(ROOT).as_posix() for path in pure_packages(ROOT)}
    assert {"src/dure/domain", "src/dure/kernel"} <= declared
