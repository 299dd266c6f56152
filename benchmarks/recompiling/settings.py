"""Programs that read globals, settings and modes."""

import torch
from torch import nn
from torch.nn import functional

SCALE = 0.5
WIDTHS = (4, 8)
CALLS = 0
MODES = {"flash": False}
SEEN: list[int] = []
LOG_EVERY = 2
CURRENT_STEP = 0
TABLE = None


class Settings:
    """The settings of a run."""

    def __init__(self) -> None:
        self.precise = True
        self.rate = 0.1
        self.step = 0


SETTINGS = Settings()


def counted(x):
    """Count the calls in a global."""
    global CALLS
    CALLS += 1
    return x / CALLS


def constants(x):
    """Read globals that nobody writes."""
    return x * SCALE + WIDTHS[0]


class Logged(nn.Module):
    """A layer that advances a global step and acts on every second one."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x):
        global CURRENT_STEP
        CURRENT_STEP = CURRENT_STEP + 1
        x = self.net(x)
        return x.clamp(-1, 1) if CURRENT_STEP % LOG_EVERY == 0 else x


def table(length: int) -> torch.Tensor:
    """Return the table of positions, which the first call builds."""
    global TABLE
    if TABLE is None:
        TABLE = torch.arange(64).float()
    return TABLE[:length]


def placed(x):
    """Add positions from a table that is built when first asked for."""
    return x + table(x.shape[-1])


def toggled(x):
    """Switch a path in a global dict at each call."""
    MODES["flash"] = not MODES["flash"]
    return x.softmax(-1) if MODES["flash"] else x.exp() / x.exp().sum(-1, keepdim=True)


def remembered(x):
    """Remember the sizes that came."""
    SEEN.append(x.shape[0])
    return x + 1


class SettingsStep(nn.Module):
    """A step of descent that advances the settings' step."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x):
        SETTINGS.step += 1
        rate = SETTINGS.rate / (1 + SETTINGS.step)
        return self.weight - rate * x.mean(0)


class SettingsReader(nn.Module):
    """A layer that only reads the settings."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x):
        x = self.net(x)
        return x * SETTINGS.rate if SETTINGS.precise else x


class Dropped(nn.Module):
    """A block with dropout and a norm."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net, self.norm, self.drop = (
            nn.Linear(width, width),
            nn.BatchNorm1d(width),
            nn.Dropout(0.1),
        )

    def forward(self, x):
        return self.drop(self.norm(self.net(x)).relu())


def run(model, x):
    """Run a model."""
    return model(x)


class DefaultSteps(nn.Module):
    """A sampler whose schedule is a mutable default of the method."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x, steps=(0.5, 0.3, 0.2)):
        for step in steps:
            x = x - step * self.net(x)
        return x


class ClassCounter(nn.Module):
    """Counts the calls of all instances on the class."""

    calls = 0

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.net = nn.Linear(width, width)

    def forward(self, x):
        type(self).calls += 1
        return self.net(x) / (1 + ClassCounter.calls)


class ConfigFlags(nn.Module):
    """Flags of a config object that the constructor keeps."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.config = Settings()
        self.net = nn.Linear(width, width)
        self.use_residual = self.config.precise

    def forward(self, x):
        out = self.net(x)
        if self.config.precise and self.use_residual:
            out = functional.layer_norm(out + x, out.shape[-1:])
        return out


def _x(count: int = 5):
    return [(torch.randn(3, 4),) for _ in range(count)]


def _modes():
    model = Dropped()
    frozen = Dropped().eval()
    return run, [((model, frozen)[n % 2], torch.randn(3, 4)) for n in range(4)]


def _dtypes():
    kinds = (torch.float32, torch.float64, torch.float32, torch.float64)
    return constants, [(torch.randn(3, 4, dtype=kind),) for kind in kinds]


def _leaves():
    return constants, [(torch.randn(3, 4, requires_grad=n % 2 == 0),) for n in range(4)]


ENTRIES = {
    "counted": lambda: (counted, _x()),
    "constants": lambda: (constants, _x()),
    "logged": lambda: (Logged(), _x()),
    "placed": lambda: (placed, _x()),
    "toggled": lambda: (toggled, _x()),
    "remembered": lambda: (remembered, _x()),
    "settings_step": lambda: (SettingsStep(), _x()),
    "settings_reader": lambda: (SettingsReader(), _x()),
    "dropped_in_both_modes": _modes,
    "constants_of_two_types": _dtypes,
    "constants_with_gradients": _leaves,
    "default_steps": lambda: (DefaultSteps(), _x()),
    "class_counter": lambda: (ClassCounter(), _x()),
    "config_flags": lambda: (ConfigFlags(), _x()),
}
