"""Kernels as people first write them in Triton. `make.py` compiles them, and `main.rs` compares their results."""

import triton
import triton.language as tl
from triton.language.extra import libdevice


@triton.jit
def add(x, y, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(out + i, tl.load(x + i, mask=i < n) + tl.load(y + i, mask=i < n), mask=i < n)


@triton.jit
def softmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row * columns + i, powers / tl.sum(powers, axis=0), mask=i < columns)


@triton.jit
def layer_norm(x, weight, bias, out, columns, epsilon, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, mask=i < columns, other=0.0)
    mean = tl.sum(values, axis=0) / columns
    centred = tl.where(i < columns, values - mean, 0.0)
    variance = tl.sum(centred * centred, axis=0) / columns
    normal = centred / tl.sqrt(variance + epsilon)
    scaled = normal * tl.load(weight + i, mask=i < columns) + tl.load(bias + i, mask=i < columns)
    tl.store(out + row * columns + i, scaled, mask=i < columns)


@triton.jit
def reduce(x, sum, largest, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + i, mask=i < n, other=0)
    tl.atomic_add(sum, tl.sum(values.to(tl.float32), axis=0))
    tl.atomic_max(largest, tl.max(values, axis=0))


@triton.jit
def argmax(x, out, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + i, mask=i < columns, other=-float("inf"))
    tl.store(out + row, tl.argmax(values, axis=0))


@triton.jit
def larger(a, b):
    return tl.maximum(a, b)


@triton.jit
def scan(x, sums, largest, n, BLOCK: tl.constexpr):
    i = tl.arange(0, BLOCK)
    values = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(sums + i, tl.cumsum(values, axis=0), mask=i < n)
    tl.store(largest + i, tl.associative_scan(values, 0, larger), mask=i < n)


@triton.jit
def sort(x, out, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, BLOCK)
    tl.store(out + row * BLOCK + i, tl.sort(tl.load(x + row * BLOCK + i)))


@triton.jit
def philox(seed, numbers, uniform, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(numbers + i, tl.randint(seed, i), mask=i < n)
    tl.store(uniform + i, tl.rand(seed, i), mask=i < n)


@triton.jit
def histogram(x, bins, n, BLOCK: tl.constexpr, BINS: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    counts = tl.histogram(tl.load(x + i, mask=i < n, other=0), BINS, mask=i < n)
    tl.atomic_add(bins + tl.arange(0, BINS), counts)


@triton.jit
def math(x, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + i, mask=i < n, other=1.0)
    tl.store(out + i, tl.exp(v), mask=i < n)
    tl.store(out + n + i, tl.log(tl.abs(v) + 1.0), mask=i < n)
    tl.store(out + 2 * n + i, tl.sin(v) * tl.cos(v), mask=i < n)
    tl.store(out + 3 * n + i, tl.rsqrt(tl.abs(v) + 1.0) + tl.sqrt_rn(tl.abs(v)), mask=i < n)
    tl.store(out + 4 * n + i, tl.erf(v) + tl.sigmoid(v), mask=i < n)
    tl.store(out + 5 * n + i, tl.floor(v) + tl.ceil(v) + tl.fma(v, v, v), mask=i < n)
    tl.store(out + 6 * n + i, libdevice.tanh(v) + libdevice.pow(tl.abs(v), 1.5), mask=i < n)
    tl.store(out + 7 * n + i, tl.div_rn(v, tl.abs(v) + 3.0) + tl.clamp(v, -1.0, 1.0), mask=i < n)


@triton.jit
def fp8(x, given, codes, out, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(codes + i, tl.load(x + i, mask=i < n, other=0.0).to(tl.float8e5), mask=i < n)
    tl.store(out + i, tl.load(given + i, mask=i < n).to(tl.float32), mask=i < n)


@triton.jit
def dot(a, b, c, m, n, k, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, BLOCK_K: tl.constexpr):
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    columns = tl.program_id(1) * BLOCK_N + tl.arange(0, BLOCK_N)
    inner = tl.arange(0, BLOCK_K)
    sum = tl.zeros((BLOCK_M, BLOCK_N), dtype=tl.float32)
    for step in range(0, k, BLOCK_K):
        at = step + inner
        left = tl.load(a + rows[:, None] * k + at[None, :], mask=(rows[:, None] < m) & (at[None, :] < k), other=0.0)
        right = tl.load(b + at[:, None] * n + columns[None, :], mask=(at[:, None] < k) & (columns[None, :] < n), other=0.0)
        sum = tl.dot(left, right, sum)
    mask = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(c + rows[:, None] * n + columns[None, :], sum, mask=mask)


@triton.jit
def attention(q, k, v, out, n, scale, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr, WIDTH: tl.constexpr):
    head = tl.program_id(1) * n * WIDTH
    rows = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    width = tl.arange(0, WIDTH)
    queries = tl.load(q + head + rows[:, None] * WIDTH + width[None, :], mask=rows[:, None] < n, other=0.0)
    largest = tl.full((BLOCK_M,), -float("inf"), dtype=tl.float32)
    total = tl.zeros((BLOCK_M,), dtype=tl.float32)
    sum = tl.zeros((BLOCK_M, WIDTH), dtype=tl.float32)
    for start in range(0, (tl.program_id(0) + 1) * BLOCK_M, BLOCK_N):
        columns = start + tl.arange(0, BLOCK_N)
        keys = tl.load(k + head + columns[None, :] * WIDTH + width[:, None], mask=columns[None, :] < n, other=0.0)
        scores = tl.dot(queries, keys) * scale
        scores = tl.where((columns[None, :] <= rows[:, None]) & (columns[None, :] < n), scores, -float("inf"))
        new = tl.maximum(largest, tl.max(scores, axis=1))
        powers = tl.exp(scores - new[:, None])
        shrink = tl.exp(largest - new)
        total = total * shrink + tl.sum(powers, axis=1)
        values = tl.load(v + head + columns[:, None] * WIDTH + width[None, :], mask=columns[:, None] < n, other=0.0)
        sum = tl.dot(powers.to(tl.float16), values, sum * shrink[:, None])
        largest = new
    place = out + head + rows[:, None] * WIDTH + width[None, :]
    tl.store(place, (sum / total[:, None]).to(tl.float16), mask=rows[:, None] < n)
