"""New imports stand among those of their kind."""

import pytest

from fullgraph.rewrites.source import parse_document
from tests.text import block


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        (
            block("""
                import sys
                import torch
            """),
            "math",
            block("""
                import math
                import sys
                import torch
            """),
        ),
        (
            block("""
                import os

                import torch
            """),
            "sys",
            block("""
                import os
                import sys

                import torch
            """),
        ),
        (
            "import os\n",
            "torch",
            block("""
                import os

                import torch
            """),
        ),
        (
            "import torch\n",
            "math",
            block("""
                import math

                import torch
            """),
        ),
        (
            "from pathlib import Path\n",
            "math",
            block("""
                import math
                from pathlib import Path
            """),
        ),
        (
            block("""
                import numpy as np

                from a import b
            """),
            "torch",
            block("""
                import numpy as np
                import torch

                from a import b
            """),
        ),
        ('"""Doc."""\n\nx = 1\n', "math", '"""Doc."""\n\nimport math\n\nx = 1\n'),
        (
            block("""
                "a" "b"
                x = 1
            """),
            "math",
            block("""
                "a" "b"

                import math
                x = 1
            """),
        ),
        (
            "from __future__ import annotations; import os\n",
            "math",
            block("""
                from __future__ import annotations; import os

                import math
            """),
        ),
        (
            "x = 1\n",
            "torch.nn as nn",
            block("""
                import torch.nn as nn
                x = 1
            """),
        ),
    ],
)
def test_place(before, name, after):
    text = parse_document("model.py", before).with_edits({}, (name,))
    assert text == after
    compile(text, "model.py", "exec")


def test_what_is_imported_stays():
    text = block("""
        import torch as t
        from torch import nn
    """)
    assert parse_document("model.py", text).with_edits({}, ("torch", "torch.nn")) == text
