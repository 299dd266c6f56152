"""The value that a failed guard is about."""

import pytest

from fullgraph.diagnose.taxonomy import describe_guard
from fullgraph.diagnose.taxonomy.roots import RootKind, root_of_guard

CASES = {
    "not hasattr(self, '_table')": ("self._table", RootKind.NONE),
    "not ___dict_contains('mean', self.__dict__)": ("self.mean", RootKind.NONE),
    "not ___dict_contains(4, self.masks)": ("self.masks", RootKind.KEYS),
    "type(self).calls == 3": ("type(self).calls", RootKind.ATTRIBUTE),
    "___check_obj_id(self.undo.__code__, 14), type=<class 'code'>": ("self.undo", RootKind.OBJECT),
    "epoch <= 2": ("epoch", RootKind.ARGUMENT),
    "3 <= self.step": ("self.step", RootKind.ATTRIBUTE),
    "0 <= self.step <= 5": ("self.step", RootKind.ATTRIBUTE),
    "(self.step // 2) == 3": ("self.step", RootKind.ATTRIBUTE),
    "G['STEP'] < 4": ("STEP", RootKind.GLOBAL),
    "2 <= x.size()[0] <= 9": ("x.shape[0]", RootKind.SIZE),
}


@pytest.mark.parametrize("guard", CASES)
def test_the_changed_value(guard):
    root = root_of_guard(guard)
    assert (root.name, root.kind) == CASES[guard]


def test_equality_and_a_bound_are_one_root():
    assert root_of_guard("epoch == 0").key == root_of_guard("epoch <= 2").key


@pytest.mark.parametrize(
    "guard", ["not hasattr(self, 'mean')", "not ___dict_contains('mean', self.__dict__)"]
)
def test_an_attribute_that_was_missing(guard):
    assert describe_guard(guard)[0] == "`self.mean` did not exist, now it does."


def test_a_computed_number_is_described_once():
    first, second = (describe_guard(f"(self.step // 2) == {n}")[0] for n in (0, 1))
    assert first.startswith("`self.step // 2` was 0, now another value")
    assert first.replace("0", "1") == second
