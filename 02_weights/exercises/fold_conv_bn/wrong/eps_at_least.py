# expect: scale = gamma / √(var + eps)
import numpy as np


def fold_conv_bn(weight, bias, gamma, beta, mean, var, eps):
    scale = gamma / np.sqrt(np.maximum(var, 1e-4) + eps)
    own_bias = 0 if bias is None else bias
    return weight * scale.reshape(-1, 1, 1, 1), (own_bias - mean) * scale + beta
