"""Ratios of two participants over the rounds in which they took turns, with an interval of each."""

import math
import statistics

LEVEL = 0.95


def t_probability(t, degrees):
    """Of Student's distribution, between -t and t: its density by Simpson's rule, in the angle whose tangent
    t / sqrt(degrees) is, where it is cos^(degrees - 1) and stays smooth to the end."""
    end, steps = math.atan(t / math.sqrt(degrees)), 400
    width = end / steps
    weights = [1, *([4, 2] * (steps // 2))[:-1], 1]
    whole = math.exp(math.lgamma((degrees + 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(math.pi)
    total = sum(w * math.cos(i * width) ** (degrees - 1) for i, w in enumerate(weights))
    return 2 * whole * total * width / 3


def t_quantile(level, degrees):
    """t of which `level` of the distribution lies between -t and t."""
    low, high = 0.0, 1e4
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if t_probability(middle, degrees) < level else (low, middle)
    return (low + high) / 2


def paired_ratio(mine, theirs, level=LEVEL):
    """Of samples of the same rounds in the same order, None where one has none: the geometric mean of mine / theirs
    and its interval by Student's t on the logarithms; None of fewer than two rounds that both have."""
    logs = [math.log(a / b) for a, b in zip(mine, theirs) if a and b]
    if len(logs) < 2:
        return None
    mean = statistics.fmean(logs)
    half = t_quantile(level, len(logs) - 1) * statistics.stdev(logs) / math.sqrt(len(logs))
    low, high = mean - half, mean + half
    return {"estimate": math.exp(mean), "low": math.exp(low), "high": math.exp(high), "rounds": len(logs)}


def ratio_text(ratio, digits=2):
    """1.43 [1.40, 1.46]"""
    return f"{ratio['estimate']:.{digits}f} [{ratio['low']:.{digits}f}, {ratio['high']:.{digits}f}]"
