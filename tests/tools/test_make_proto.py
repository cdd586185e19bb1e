"""What is generated from `proto/` is what is kept in the tree."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "src" / "dure" / "wire" / "v1"


def test_generating_anew_gives_what_is_kept(tmp_path: Path) -> None:
    subprocess.run(
        [ROOT / "tools" / "make_proto", tmp_path],
        check=True,
        env={**os.environ, "PYTHON": sys.executable},
        timeout=120,
    )
    made = tmp_path / "dure" / "wire" / "v1"
    names = sorted(each.name for each in made.iterdir())
    assert names == ["member_pb2.py", "member_pb2.pyi", "member_pb2_grpc.py"]
    for name in names:
        assert (made / name).read_bytes() == (KEPT / name).read_bytes(), "run tools/make_proto"
