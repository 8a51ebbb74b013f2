"""What oneDNN ran, read from what it prints."""

import pytest
import torch
from tiers import seldom

from common.measure import onednn

VERBOSE = """onednn_verbose,v1,info,oneDNN v3.12.0 (commit 80afa71)
onednn_verbose,v1,primitive,info,template:operation,engine,primitive,implementation,prop_kind,memory_descriptors
onednn_verbose,v1,primitive,exec,cpu,reorder,jit:uni,undef,src:f32::blocked:abcd::f0 dst:f32::blocked:Acdb64a::f0,x,,64x384x1x1,15.1
onednn_verbose,v1,primitive,exec,cpu,convolution,brgconv_1x1:avx512_core,forward_training,src:f32::blocked:acdb::f0 wei:f32:a:blocked:Acdb64a::f0 bia:undef::undef::: dst:f32::blocked:acdb::f0,x,alg:convolution_direct,mb1,12.5
onednn_verbose,exec,cpu,convolution,ref:any,forward_inference,src_f32::blocked:abcd:f0 dst_f32::blocked:abcd:f0,,,1
onednn_verbose,v1,primitive,exec,cpu
something else
"""  # noqa: E501


def test_primitives_in_order():
    first, second, third = onednn.parsed(VERBOSE)
    assert first == onednn.Primitive("reorder", "jit:uni", "src NCHW, dst Acdb64a")
    assert second == onednn.Primitive("convolution", "brgconv_1x1:avx512_core", "src NHWC, wei Acdb64a, dst NHWC")
    assert (third.kind, third.implementation) == ("convolution", "ref:any")
    assert str(first).split() == ["reorder", "jit:uni", "src", "NCHW,", "dst", "Acdb64a"]


def test_nothing_printed_is_nothing_run():
    assert onednn.parsed("") == []


def test_code_that_fails_says_why():
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        onednn.primitives("1 / 0")


@seldom(6)
@pytest.mark.skipif(not torch.backends.mkldnn.is_available(), reason="PyTorch without oneDNN")
def test_a_convolution_is_found():
    code = "import torch; torch.nn.functional.conv2d(torch.ones(16, 384, 14, 14), torch.ones(64, 384, 1, 1))"
    assert "convolution" in [primitive.kind for primitive in onednn.primitives(code)]
