"""New imports stand among those of their kind."""

import pytest

from fullgraph.rewrites.source import parse_document


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        ("import sys\nimport torch\n", "math", "import math\nimport sys\nimport torch\n"),
        ("import os\n\nimport torch\n", "sys", "import os\nimport sys\n\nimport torch\n"),
        ("import os\n", "torch", "import os\n\nimport torch\n"),
        ("import torch\n", "math", "import math\n\nimport torch\n"),
        ("from pathlib import Path\n", "math", "import math\nfrom pathlib import Path\n"),
        (
            "import numpy as np\n\nfrom a import b\n",
            "torch",
            "import numpy as np\nimport torch\n\nfrom a import b\n",
        ),
        ('"""Doc."""\n\nx = 1\n', "math", '"""Doc."""\n\nimport math\n\nx = 1\n'),
        ('"a" "b"\nx = 1\n', "math", '"a" "b"\n\nimport math\nx = 1\n'),
        (
            "from __future__ import annotations; import os\n",
            "math",
            "from __future__ import annotations; import os\n\nimport math\n",
        ),
        ("x = 1\n", "torch.nn as nn", "import torch.nn as nn\nx = 1\n"),
    ],
)
def test_place(before, name, after):
    text = parse_document("model.py", before).with_edits({}, (name,))
    assert text == after
    compile(text, "model.py", "exec")


def test_what_is_imported_stays():
    text = "import torch as t\nfrom torch import nn\n"
    assert parse_document("model.py", text).with_edits({}, ("torch", "torch.nn")) == text
