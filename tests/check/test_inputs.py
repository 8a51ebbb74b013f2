"""Arguments are inputs: what is changed, and what is a view, is found wherever it lies."""

import inspect
from collections import OrderedDict, deque
from types import SimpleNamespace

import numpy as np
import pytest
from onnx import helper

from common.check import Wrong
from common.check.inputs import guarded

NAN = float("nan")


def said(function, *args, **kwargs):
    with pytest.raises(Wrong) as error:
        guarded(function)(*args, **kwargs)
    assert error.value.hint
    return error.value.what


def setting(target, place, value):
    target[place] = value


CHANGES = [
    (lambda x: x.append(1), [3], "x has 2 items, it had 1"),
    (lambda x: x.sort(), [3, 1], "x[0] is 1, it was 3"),
    (lambda x: x[1][0].pop(), [3, ([1, 2],)], "x[1][0] has 1 items, it had 2"),
    (lambda x: x.update(b=2), {"a": 1}, "x['b'] is new"),
    (lambda x: x.pop("a"), {"a": 1}, "x['a'] is gone"),
    (lambda x: x["a"].clear(), {"a": OrderedDict(b=1)}, "x['a']['b'] is gone"),
    (lambda x: x.add(2), {1}, "x is {1, 2}, it was {1}"),
    (lambda x: x.rotate(), deque([1, 2]), "x[0] is 2, it was 1"),
    (lambda x: x.__setitem__(0, 7), bytearray(b"ab"), "x is not as it was"),
    (lambda x: x.__imul__(2), np.ones((2, 2)), "x[0, 0] is 2.0, it was 1.0"),
    (lambda x: x["w"][0].__setitem__(1, 5), {"w": [np.zeros(3)]}, "x['w'][0][1] is 5.0, it was 0.0"),
    (lambda x: x.__setitem__(0, 1.0), np.array([NAN]), "x[0] is 1.0, it was nan"),
    (lambda x: x.__setitem__(0, NAN), np.array([1.0]), "x[0] is nan, it was 1.0"),
    (lambda x: x.resize(4, refcheck=False), np.ones(3), "x has shape (4,) and dtype float64, it had (3,)"),
    (lambda x: x[0].append(1), np.array([[], None], object), "x[0] has 1 items, it had 0"),
    (lambda x: setattr(x, "y", 3), SimpleNamespace(y=2), "x.y is 3, it was 2"),
    (lambda x: x.y.append(3), SimpleNamespace(y=[2]), "x.y has 2 items, it had 1"),
    (lambda x: x.input.append("b"), helper.make_node("Conv", ["a"], ["y"]), "x is not as it was"),
    (lambda x: setting(x, 0, [1]), [[1, 2]], "x[0] has 1 items, it had 2"),
    (lambda x: setting(x, 0, "1"), [1], "x[0] is '1', it was 1"),
    (lambda x: setting(x, 0, [1]), [1], "x[0] is something else now"),
]


@pytest.mark.parametrize(("change", "value", "what"), CHANGES)
def test_changes_are_found(change, value, what):
    def f(x):
        change(x)

    assert said(f, value).startswith(f"f changes its argument `x`: {what}")


@pytest.mark.parametrize(
    "value",
    [
        [1, [2.0, NAN]], {"a": {1}, 2: (3,)}, np.array([NAN, 1]), np.array([1, "a", None], object), range(3),
        SimpleNamespace(a=[NAN]), helper.make_node("Conv", ["a"], ["y"]), "text", b"bytes", len, np.float32(NAN),
        np.array(["a", "b"]), np.zeros(0), np.datetime64("NaT"),
    ],
)  # fmt: skip
def test_what_stays_as_it_is_passes(value):
    assert guarded(lambda x: 7)(value) == 7
    assert guarded(lambda *x, **y: 7)(value, key=value) == 7


def test_tensors_and_modules():
    torch = pytest.importorskip("torch")
    assert "x[1] is 3.0, it was 1.0" in said(lambda x: x.__setitem__(1, 3.0), torch.ones(2))
    model = torch.nn.Sequential(torch.nn.Linear(2, 3))

    def halve(model):
        with torch.no_grad():
            model[0].weight *= 0.5

    assert "weight" in said(halve, model)
    assert ".training is False, it was True" in said(lambda model: model.eval(), model)
    model.train()
    assert guarded(lambda model, x: model(x))(model, torch.ones(1, 2)).shape == (1, 3)
    assert "gives back a view" in said(lambda x: x.T, torch.ones(2, 3))


def test_a_list_that_holds_itself():
    x = [1]
    x.append(x)
    assert guarded(lambda x: len(x))(x) == 2
    assert "x[0] is 5, it was 1" in said(lambda x: setting(x, 0, 5), x)


def test_the_parameter_is_named():
    def f(a, b=None, *more, c=None, **others):
        (c or b or more[0] if not others else others["d"]).append(1)

    assert "`b`" in said(f, [1], [2])
    assert "`c`" in said(f, [1], c=[2])
    assert "`more[0]`" in said(f, [1], [], [2])
    assert "`d`" in said(f, [1], d=[2])


def test_what_the_exercise_permits():
    def fill(x, out):
        out[:] = x
        return out

    x, out = np.arange(3.0), np.zeros(3)
    assert guarded(fill, inout=["out"])(x, out) is out
    assert guarded(lambda x: x[1:], views_allowed=True)(x).size == 2


def test_views_are_found():
    x = np.arange(12.0).reshape(3, 4)
    for view in (lambda x: x, lambda x: x[1:], lambda x: x.T, lambda x: [{"a": x.ravel()}], lambda x: x[::2, ::2]):
        assert "gives back a view of its argument `x`" in said(view, x)
    assert "`x`" in said(lambda x: x["w"][0], {"w": [np.ones(3)]})
    for new in (lambda x: x.copy(), lambda x: x[[0, 1]], lambda x: x + 0, lambda x: x[0, 0], lambda x: x.sum()):
        guarded(new)(x)
    even, odd = x.reshape(-1)[::2], x.reshape(-1)[1::2]
    guarded(lambda x: odd)(even)  # their bounds overlap, their elements do not


def test_errors_of_the_function_are_its_own():
    with pytest.raises(ZeroDivisionError):
        guarded(lambda x: x / 0)(1)
    with pytest.raises(TypeError, match="positional argument"):
        guarded(lambda x: x)(1, 2)


def test_the_function_stays_what_it_is():
    def double(x: int, by: int = 2) -> int:
        """Twice x."""
        return x * by

    again = guarded(double)
    assert again(4) == 8 and again.__name__ == "double" and again.__doc__ == "Twice x."
    assert inspect.signature(again) == inspect.signature(double)
    assert inspect.getsource(again) == inspect.getsource(double)


class Odd:
    """Something that cannot be compared, copied or read."""

    __slots__ = ()

    def __eq__(self, other):
        raise RuntimeError

    __hash__ = None


def test_what_cannot_be_compared_is_left_alone():
    assert guarded(lambda x: 1)([Odd(), (i for i in range(3)), open(__file__, encoding="utf-8")]) == 1  # noqa: SIM115
