"""The structures that Python and the simulator's runtime share: they agree, or the runtime is refused."""

import ctypes
import enum

import pytest

from common import cuda
from common.cuda.simulator import binding

pytestmark = pytest.mark.skipif(cuda.backend() == "gpu", reason="of the simulator")


def changed(name, fields):
    return type(name, (ctypes.Structure,), {"_fields_": fields})


FIELDS = list(binding.Fault._fields_)
SWAPPED = [FIELDS[0], FIELDS[2], FIELDS[1], *FIELDS[3:]]  # block before thread: the same size
STRUCTURES = {
    "two fields changed places": (SWAPPED, r"Fault\.(thread|block): \(\d+, 12\) here, \(\d+, 12\) in the runtime"),
    "a smaller field": ([*FIELDS[:3], ("address", ctypes.c_uint32), *FIELDS[4:]], r"Fault\.address: .*, 4\) here"),
    "a field too few": (FIELDS[:-1], r"Fault: \(0, \d+\) here.*Fault\.shared_high: None here"),
    "a field too many": ([*FIELDS, ("more", ctypes.c_int)], r"Fault\.more: \(\d+, 4\) here, None in the runtime"),
    "another name": ([("sort", ctypes.c_int), *FIELDS[1:]], r"Fault\.sort: .* None in the runtime"),
}


def test_the_runtime_has_the_structures_of_binding():
    binding.check_abi(binding.runtime())
    names = [name for name, _ in binding._expected_abi()]
    assert {"Launch.fault", "TraceRequest.workers", "Finding.type", "FaultKind.QUOTIENT_OVERFLOW"} <= set(names)


@pytest.mark.parametrize("case", STRUCTURES)
def test_a_structure_that_differs_is_refused(case, monkeypatch):
    fields, message = STRUCTURES[case]
    monkeypatch.setitem(binding._STRUCTURES, "Fault", changed("Fault", fields))
    with pytest.raises(RuntimeError, match=f"other C structures than .*{message}"):
        binding.check_abi(binding.runtime())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda kinds: {**kinds, "NEW": len(kinds)}, r"FindingKind: \(14, 0\) here, \(13, 0\) in the runtime"),
        (lambda kinds: dict(zip(["BAD_INDEX" if k == "RACE" else "RACE" if k == "BAD_INDEX" else k for k in kinds],
                                kinds.values(), strict=True)), r"FindingKind\.(RACE|BAD_INDEX)"),
    ],
    ids=["one more", "two changed places"],
)  # fmt: skip
def test_an_enumeration_that_differs_is_refused(change, message, monkeypatch):
    kinds = enum.IntEnum("FindingKind", change({kind.name: kind.value for kind in binding.FindingKind}))
    others = tuple(one for one in binding._ENUMERATIONS if one is not binding.FindingKind)
    monkeypatch.setattr(binding, "_ENUMERATIONS", (*others, kinds))
    with pytest.raises(RuntimeError, match=message):
        binding.check_abi(binding.runtime())
