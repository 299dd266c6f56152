"""What is installed, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

pytestmark = pytest.mark.compiles

ROOT = Path(__file__).parent.parent


def test_importing_fullgraph_loads_no_torch() -> None:
    code = "import sys, fullgraph; dir(fullgraph); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_every_name_of_the_package_can_be_had() -> None:
    import fullgraph

    for name in fullgraph.__all__:
        assert getattr(fullgraph, name) is not None


def test_the_wheel_holds_fullgraph_alone_and_imports_elsewhere(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "-o", str(tmp_path)]
    subprocess.run([*build, str(ROOT)], check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        names = [n for n in archive.namelist() if ".dist-info/" not in n]
        (metadata,) = (n for n in archive.namelist() if n.endswith("/METADATA"))
        needs = [
            line.removeprefix("Requires-Dist: ")
            for line in archive.read(metadata).decode().splitlines()
            if line.startswith("Requires-Dist: ") and "extra ==" not in line
        ]
        archive.extractall(site)
    assert {name.partition("/")[0] for name in names} == {"fullgraph"}
    assert "libcst" in needs and not any("torch" in name or "triton" in name for name in needs)
    sources = {
        f"fullgraph/{path.relative_to(ROOT)}"
        for room in ("compiler", "diagnose")
        for path in (ROOT / room).rglob("*")
        if path.suffix in (".py", ".css", ".html")
    }
    assert sources <= set(names)
    assert "fullgraph/py.typed" in names
    code = (
        "import fullgraph, torch; print(fullgraph.__file__); "
        "fullgraph.explain(lambda x: x + 1, torch.ones(2)).to_html('page.html')"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(site), "PATH": "/usr/bin:/bin"},
    )
    assert done.stdout.startswith(str(site))
    assert (tmp_path / "page.html").exists()
