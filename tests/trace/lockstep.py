"""A brute-force model of a warp: small random kernels, printed as CUDA C++ and executed in lockstep with a mask.

The model knows nothing of the simulator. A program is a tree of the statements below. `Program.source` prints it,
each statement that touches memory on a line of its own; `count` executes it as hardware without any cleverness would:
the 32 lanes of a warp go through the tree together, a branch is taken first by the lanes whose condition holds, then by
the others, and all come together again right behind it (the immediate post-dominator). Every load, store or
atomic is one request of the lanes that are active there; its sectors or wavefronts are counted from their addresses.

As-written semantics. A compiler may change how often memory is touched (load once what cannot have changed, move a load
out of a loop or to where its value is needed, write once what is overwritten). So that this cannot happen here:
every index depends on `acc`, which every access changes; every loaded value ends in `acc` or `sink`, and every way
out of a function writes both. What is read from shared memory goes into `sink`, on which no address depends, for
without barriers its value depends on the order of the lanes. Both arms of a branch never write to the same address.
Left out for the same reason: loads in both arms of a `?:`, and a `switch` that falls through.
"""

# ruff: noqa: E501 (texts of kernels and messages)

import random
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

ARRAYS = {  # name: bytes of an element, its type, how it is read, how it is written
    "g1": (1, "const unsigned char", "g1[{}]", ""),
    "g2": (2, "const unsigned short", "g2[{}]", ""),
    "gh": (2, "const __half", "__half_as_ushort(gh[{}])", ""),
    "gh2": (4, "const __half2", "mix_half2(gh2[{}])", ""),
    "g4": (4, "const unsigned", "g4[{}]", ""),
    "g8": (8, "const uint2", "mix_uint2(g8[{}])", ""),
    "g16": (16, "const uint4", "mix_uint4(g16[{}])", ""),
    "o1": (1, "unsigned char", "", "o1[{}] = (unsigned char){}"),
    "oh": (2, "__half", "", "oh[{}] = __ushort_as_half((unsigned short)({}))"),
    "o4": (4, "unsigned", "", "o4[{}] = {}"),
    "o8": (8, "uint2", "", "o8[{}] = make_uint2({0}, 7u)"),
    "o16": (16, "uint4", "", "o16[{}] = make_uint4({0}, 7u, 8u, 9u)"),
    "counters": (4, "unsigned", "", ""),
    "s4": (4, "unsigned", "s4[{}]", "s4[{}] = {}"),
    "dyn2": (2, "unsigned short", "dyn2[{}]", "dyn2[{}] = (unsigned short){}"),
    "dyn4": (4, "unsigned", "dyn4[{}]", "dyn4[{}] = {}"),
    "dyn8": (8, "uint2", "mix_uint2(dyn8[{}])", "dyn8[{}] = make_uint2({0}, 7u)"),
    "dyn16": (16, "uint4", "mix_uint4(dyn16[{}])", "dyn16[{}] = make_uint4({0}, 7u, 8u, 9u)"),
}
LOADED = ["g1", "g2", "gh", "gh2", "g4", "g8", "g16"]
STORED = ["o1", "oh", "o4", "o8", "o16"]
SHARED = ["s4", "dyn2", "dyn4", "dyn8", "dyn16"]
BYTES = 4096  # of every array; static shared memory has s4, dynamic shared memory the four dyn…, which are one
PARAMETERS = ", ".join(f"{ARRAYS[n][1]}* {n}" for n in [*LOADED, *STORED, "counters", *SHARED])
POINTERS = ", ".join([*LOADED, *STORED, "counters", *SHARED])
HEADER = """#include <cuda_fp16.h>
static __device__ __forceinline__ unsigned mix_half2(__half2 v) { return __half_as_ushort(v.x) + 3u * __half_as_ushort(v.y); }
static __device__ __forceinline__ unsigned mix_uint2(uint2 v) { return v.x + 3u * v.y; }
static __device__ __forceinline__ unsigned mix_uint4(uint4 v) { return v.x + 3u * v.y + 5u * v.z + 7u * v.w; }
"""


def space_of(array: str) -> str:
    return "shared" if array in SHARED else "global"


@dataclass(frozen=True)
class Index:
    """tid * scale / divisor + acc % spread + (k) + constant, modulo the array's length."""

    scale: int
    divisor: int
    spread: int
    constant: int

    def text(self, array: str) -> str:
        n = BYTES // ARRAYS[array][0]
        return f"(tid * {self.scale}u / {self.divisor}u + acc % {self.spread}u + {self.constant}u) % {n}u"

    def value(self, env: dict[str, np.ndarray], array: str) -> np.ndarray:
        n = BYTES // ARRAYS[array][0]
        place = env["tid"] * np.uint32(self.scale) // np.uint32(self.divisor) + env["acc"] % np.uint32(self.spread)
        return (place + np.uint32(self.constant)) % np.uint32(n)


@dataclass(frozen=True)
class Condition:
    """A variable, modulo something, less than a bound."""

    variable: str
    modulus: int
    bound: int

    def text(self) -> str:
        return f"{self.variable} % {self.modulus}u < {self.bound}u"

    def value(self, env: dict[str, np.ndarray]) -> np.ndarray:
        return env[self.variable] % np.uint32(self.modulus) < self.bound


@dataclass(frozen=True)
class Amount:
    """A variable modulo something: how often a loop is run, which case is taken."""

    variable: str
    modulus: int

    def text(self) -> str:
        return f"{self.variable} % {self.modulus}u"

    def value(self, env: dict[str, np.ndarray]) -> np.ndarray:
        return env[self.variable] % np.uint32(self.modulus)


@dataclass
class Statement:
    line: int = field(default=0, init=False)


@dataclass
class Access(Statement):
    kind: str
    array: str
    index: Index


@dataclass
class If(Statement):
    condition: Condition
    then: list[Statement]
    otherwise: list[Statement]


@dataclass
class Switch(Statement):
    amount: Amount
    cases: list[list[Statement]]


@dataclass
class Loop(Statement):
    trips: Amount
    body: list[Statement]
    form: str  # "for", "while" or "do"


@dataclass
class Leave(Statement):
    how: str  # "continue", "break", "return"
    index: Index  # where a return writes


@dataclass
class Call(Statement):
    function: int


@dataclass
class Barrier(Statement):
    pass


@dataclass
class Exchange(Statement):
    """A shuffle of acc, or __syncwarp, of the lanes in `mask`."""

    mask: int
    kind: str  # "xor", "down", "sync"
    delta: int


@dataclass
class Function:
    body: list[Statement]
    qualifier: str
    last: Index
    end: int = 0


class Program:
    """A kernel `name` and the device functions that it calls; function i calls only those after it."""

    def __init__(
        self, name: str, body: list[Statement], functions: list[Function], block: tuple[int, ...], last: Index
    ) -> None:
        # (shared memory that nobody reads is not written either)
        self.name, self.functions, self.block = name, functions, block
        self.body = [Access("store", "s4", Index(1, 1, 2, 5)), *body, Access("load", "s4", Index(1, 1, 2, 0))]
        self.last = last
        self.threads = int(np.prod(block))
        self.grid = 2

    # ---- As CUDA C++
    def source(self, first_line: int) -> str:
        self._lines: list[str] = []
        self._first = first_line
        for i in reversed(range(len(self.functions))):
            f = self.functions[i]
            self._put(
                f"{f.qualifier} unsigned {self.name}_f{i}({PARAMETERS}, unsigned tid, unsigned acc) {{ unsigned sink = 0;"
            )
            self._print(f.body, 1, inside_function=True)
            f.end = self._put(f"    {{ o4[{f.last.text('o4')}] = sink; return acc; }}")
            self._put("}")
        parameters = ", ".join(f"{ARRAYS[n][1]}* __restrict__ {n}" for n in [*LOADED, *STORED, "counters"])
        self._put(f'extern "C" __global__ void {self.name}({parameters}) {{')
        self._put(f"    __shared__ unsigned s4[{BYTES // 4}];")
        self._put("    extern __shared__ uint4 dyn16[];")
        self._put(
            "    unsigned short* dyn2 = (unsigned short*)dyn16; unsigned* dyn4 = (unsigned*)dyn16; uint2* dyn8 = (uint2*)dyn16;"
        )
        self._put("    const unsigned tid = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);")
        self._put("    const unsigned lane = tid % 32u, three = gridDim.x + 1u;")
        self._put("    unsigned acc = tid * 2654435761u + blockIdx.x * 40503u, sink = 0;")
        self._print(self.body, 1, inside_function=False)
        self._end = self._put(f"    o4[{self.last.text('o4')}] = acc ^ sink;")
        self._put("}")
        return "\n".join(self._lines) + "\n"

    def _put(self, text: str) -> int:
        self._lines.append(text)
        return self._first + len(self._lines) - 1

    def _print(self, body: list[Statement], depth: int, inside_function: bool) -> None:
        pad = "    " * depth
        for s in body:
            if isinstance(s, Access):
                s.line = self._put(pad + self._access(s))
            elif isinstance(s, If):
                self._put(f"{pad}if ({s.condition.text()}) {{")
                self._print(s.then, depth + 1, inside_function)
                if s.otherwise:
                    self._put(f"{pad}}} else {{")
                    self._print(s.otherwise, depth + 1, inside_function)
                self._put(f"{pad}}}")
            elif isinstance(s, Switch):
                self._put(f"{pad}switch ({s.amount.text()}) {{")
                for i, case in enumerate(s.cases):
                    self._put(f"{pad}case {i}: {{" if i + 1 < len(s.cases) else f"{pad}default: {{")
                    self._print(case, depth + 1, inside_function)
                    self._put(f"{pad}}} break;")
                self._put(f"{pad}}}")
            elif isinstance(s, Loop):
                k = f"k{depth}"
                head = {
                    "for": f"for (unsigned {k} = 0, n = {s.trips.text()}; {k} < n; ++{k}) {{",
                    "while": f"for (unsigned {k} = {s.trips.text()}; {k}--;) {{",
                    "do": f"unsigned {k}_{len(self._lines)} = {s.trips.text()}; do {{",
                }[s.form]
                name = f"{k}_{len(self._lines)}"
                self._put(pad + head)
                self._print(s.body, depth + 1, inside_function)
                self._put(f"{pad}}} while ({name}--);" if s.form == "do" else f"{pad}}}")
            elif isinstance(s, Leave) and s.how == "return":
                s.line = self._put(
                    pad
                    + (
                        "{ o4["
                        + s.index.text("o4")
                        + ("] = sink; return acc; }" if inside_function else "] = acc ^ sink; return; }")
                    )
                )
            elif isinstance(s, Leave):
                self._put(f"{pad}{s.how};")
            elif isinstance(s, Call):
                s.line = self._put(f"{pad}acc = acc * 3u + {self.name}_f{s.function}({POINTERS}, tid, acc);")
            elif isinstance(s, Barrier):
                self._put(f"{pad}__syncthreads();")
            elif isinstance(s, Exchange) and s.kind == "sync":
                self._put(f"{pad}__syncwarp({s.mask:#x}u);")
            elif isinstance(s, Exchange):
                self._put(f"{pad}acc += 5u * __shfl_{s.kind}_sync({s.mask:#x}u, acc, {s.delta});")

    @staticmethod
    def _access(s: Access) -> str:
        index = s.index.text(s.array)
        _, _, read, write = ARRAYS[s.array]
        if s.kind == "atomic":
            return f"atomicAdd(&{s.array}[{index}], 1u); acc = acc * 5u + 3u;"
        if s.kind == "store":
            text = write.replace("[{}]", f"[{index}]").replace("{0}", "acc").replace("{}", "acc")
            return f"{text}; acc = acc * 5u + 3u;"
        if s.array in SHARED:
            return f"sink += {read.format(index)}; acc = acc * 5u + 3u;"
        return f"acc = acc * 31u + {read.format(index)} + 1u;"

    # ---- In lockstep
    def count(self, inputs: dict[str, np.ndarray]) -> Counter:
        """Counts by (line, kind, space, bytes each, what)."""
        self.counts: Counter = Counter()
        for block in range(self.grid):
            warps = [_Warp(self, block, w, inputs) for w in range(-(-self.threads // 32))]
            runs = [w.run() for w in warps]
            while runs:  # to the next barrier, all of them
                runs = [r for r in runs if next(r, "over") != "over"]
        return self.counts

    @staticmethod
    def turns(kind: str, words_each: int, lanes: np.ndarray, addresses: np.ndarray) -> Iterator[np.ndarray]:
        """The addresses that are served together: of 32, 16 or 8 lanes, or of twice as many that share them in pairs."""
        by_lane = dict(zip(lanes.tolist(), addresses.tolist(), strict=True))
        count = 32 // words_each
        joined = 2 * count if kind == "load" and words_each > 1 else count
        for first in range(0, 32, joined):
            group = [lane for lane in range(first, first + joined) if lane in by_lane]
            pairs = any(
                all(by_lane.get(lane ^ step, by_lane[lane]) == by_lane[lane] for lane in group) for step in (1, 2)
            )
            for start in [first] if pairs or joined == count else [first, first + count]:
                width = joined if pairs or joined == count else count
                yield np.array([by_lane[lane] for lane in group if start <= lane < start + width], np.int64)

    def access(self, line: int, kind: str, array: str, index: np.ndarray, mask: np.ndarray) -> None:
        if not mask.any():
            return
        size, space = ARRAYS[array][0], space_of(array)
        addresses = index[mask].astype(np.int64) * size
        lanes = np.flatnonzero(mask)
        if space == "global":
            units = len(np.unique(np.concatenate([addresses // 32, (addresses + size - 1) // 32])))
            ideal = -(-len(np.unique(addresses)) * size // 32)
        else:
            units = ideal = 0
            words_each = max(1, size // 4)
            for here in self.turns(kind, words_each, lanes, addresses):
                if len(here):
                    words = np.unique((here[:, None] // 4 + np.arange(words_each)).ravel())
                    units += int(np.bincount(words % 32).max())
                    ideal += 1
        key = (line, kind, space, size)
        values = {"requests": 1, "accesses": len(lanes), "units": units, "ideal": ideal, "bytes": len(lanes) * size}
        for name, value in values.items():
            self.counts[(*key, name)] += value


class _Frame:
    """Where the lanes of one call of a function, or of one loop in it, have gone."""

    def __init__(self) -> None:
        self.returned = np.zeros(32, bool)
        self.broken: list[np.ndarray] = []
        self.continued: list[np.ndarray] = []


class _Warp:
    def __init__(self, program: Program, block: int, warp: int, inputs: dict[str, np.ndarray]) -> None:
        self.p, self.inputs = program, inputs
        tid = np.arange(32, dtype=np.uint32) + np.uint32(32 * warp)
        self.exists = tid < program.threads
        self.finished = ~self.exists
        self.tid = tid
        self.env = {
            "tid": tid,
            "lane": tid % np.uint32(32),
            "three": np.full(32, 3, np.uint32),
            "acc": tid * np.uint32(2654435761) + np.uint32(block * 40503),
        }

    def run(self) -> Iterator[str]:
        frame = _Frame()
        self.kernel_frame = frame
        left = yield from self._run(self.p.body, self.exists.copy(), self.env, frame)
        self.p.access(self.p._end, "store", "o4", self.p.last.value(self.env, "o4"), left)

    def _run(self, body: list[Statement], mask: np.ndarray, env: dict[str, np.ndarray], frame: _Frame):
        """Executes `body` for the lanes in `mask`; the lanes that come out at its end."""
        for s in body:
            if not mask.any():
                break
            if isinstance(s, Access):
                self._access(s, mask, env)
            elif isinstance(s, If):
                holds = s.condition.value(env)
                then = yield from self._run(s.then, mask & holds, env, frame)
                otherwise = yield from self._run(s.otherwise, mask & ~holds, env, frame)
                mask = then | otherwise
            elif isinstance(s, Switch):
                case = np.minimum(s.amount.value(env), len(s.cases) - 1)
                together = np.zeros(32, bool)
                for i, statements in enumerate(s.cases):
                    together |= yield from self._run(statements, mask & (case == i), env, frame)
                mask = together
            elif isinstance(s, Loop):
                trips = s.trips.value(env) + (s.form == "do")
                frame.broken.append(np.zeros(32, bool))
                turn, out = 0, np.zeros(32, bool)
                inside = mask
                while True:
                    out |= inside & (trips <= turn)
                    inside = inside & (trips > turn)
                    if not inside.any():
                        break
                    frame.continued.append(np.zeros(32, bool))
                    inside = yield from self._run(s.body, inside, env, frame)
                    inside = inside | frame.continued.pop()
                    turn += 1
                mask = out | frame.broken.pop()
            elif isinstance(s, Leave):
                if s.how == "return":
                    frame.returned |= mask
                    self.p.access(s.line, "store", "o4", s.index.value(env, "o4"), mask)
                elif s.how == "break":
                    frame.broken[-1] |= mask
                else:
                    frame.continued[-1] |= mask
                mask = np.zeros(32, bool)
            elif isinstance(s, Call):
                inner, called = _Frame(), {"tid": env["tid"], "acc": env["acc"].copy()}
                left = yield from self._run(self.p.functions[s.function].body, mask, called, inner)
                last = self.p.functions[s.function]
                self.p.access(last.end, "store", "o4", last.last.value(called, "o4"), left)
                assert ((left | inner.returned) == mask).all()
                self._set(env, mask, env["acc"] * np.uint32(3) + called["acc"])
            elif isinstance(s, Barrier):
                yield "barrier"
            elif isinstance(s, Exchange):
                wanted = np.array([s.mask >> lane & 1 for lane in range(32)], bool)
                assert (mask == (wanted & self.exists & ~self.kernel_frame.returned)).all(), "a mask of other lanes"
                if s.kind != "sync":
                    source = np.arange(32) ^ s.delta if s.kind == "xor" else np.arange(32) + s.delta
                    source = np.where(source < 32, source, np.arange(32))
                    source = np.where(mask[source], source, np.arange(32))
                    self._set(env, mask, env["acc"] + np.uint32(5) * env["acc"][source])
        return mask

    def _set(self, env: dict[str, np.ndarray], mask: np.ndarray, value: np.ndarray) -> None:
        env["acc"] = np.where(mask, value, env["acc"])

    def _access(self, s: Access, mask: np.ndarray, env: dict[str, np.ndarray]) -> None:
        index = s.index.value(env, s.array)
        self.p.access(s.line, s.kind, s.array, index, mask)
        acc = env["acc"]
        if s.kind != "load" or s.array in SHARED:
            self._set(env, mask, acc * np.uint32(5) + np.uint32(3))
        else:
            parts = self.inputs[s.array].astype(np.uint32)[index]
            value = parts if parts.ndim == 1 else parts @ np.array([1, 3, 5, 7], np.uint32)[: parts.shape[1]]
            self._set(env, mask, acc * np.uint32(31) + value + np.uint32(1))


def make_inputs(seed: int) -> dict[str, np.ndarray]:
    """The arrays that are read, as unsigned integers: (elements,) or (elements, parts)."""
    rng = np.random.default_rng(seed)
    shapes: dict[str, Any] = {"g1": (np.uint8, 1), "g2": (np.uint16, 1), "gh": (np.uint16, 1), "gh2": (np.uint16, 2), "g4": (np.uint32, 1),
              "g8": (np.uint32, 2), "g16": (np.uint32, 4)}  # fmt: skip
    made = {}
    for name, (dtype, parts) in shapes.items():
        bits = rng.integers(0, np.iinfo(dtype).max, (BYTES // ARRAYS[name][0], parts), dtype=dtype, endpoint=True)
        made[name] = bits[:, 0] if parts == 1 else bits
    return made


# ---- Random programs
class Maker:
    """Draws programs. The deeper, the fewer branches; `leave` says which ways out are allowed where."""

    def __init__(self, seed: int, leaves: tuple[str, ...] = ("continue", "break")) -> None:
        self.r = random.Random(seed)
        self.budget = 14
        self.leaves = leaves

    def program(self, name: str) -> Program:
        r = self.r
        functions = [
            Function(
                [],
                r.choice(["static __device__ __noinline__", "static __device__", "static __device__ __forceinline__"]),
                self.index(),
            )
            for _ in range(r.randrange(3))
        ]
        self.callable = []
        for i in reversed(range(len(functions))):
            self.budget = 5
            functions[i].body = self.body(1, ("return",), False, True)
            self.callable.append(i)
        self.budget = 16
        block = r.choice([(32,), (64,), (45,), (7, 9), (8, 4, 2), (96,), (5,)])
        body = self.body(0, ("return",), True, False) + self.body(0, ("return",), True, False)
        return Program(name, body, functions, block, self.index())

    def index(self) -> Index:
        r = self.r
        return Index(
            r.choice([1, 1, 1, 2, 3, 4, 8, 32, 33, 0]),
            r.choice([1, 1, 1, 2, 4, 7]),
            r.choice([2, 2, 3, 5, 17, 97]),
            r.randrange(40),
        )

    def condition(self) -> Condition:
        modulus = self.r.randint(2, 33)
        return Condition(self.r.choice(["tid", "acc"]), modulus, self.r.randrange(1, modulus))

    def body(self, depth: int, leave: tuple[str, ...], convergent: bool, in_function: bool) -> list[Statement]:
        """convergent: all lanes that are left in the kernel come here together."""
        made: list[Statement] = []
        for _ in range(self.r.randint(1, 5 if depth == 0 else 3)):
            if self.budget <= 0:
                break
            self.budget -= 1
            made.append(self.statement(depth, leave, convergent, in_function))
        return made

    def statement(self, depth: int, leave: tuple[str, ...], convergent: bool, in_function: bool) -> Statement:
        r = self.r
        what = r.random()
        deeper = tuple(leave)
        if convergent and what < 0.25:
            form = r.random()
            if form < 0.25:
                return Barrier()
            if form < 0.45:
                return Exchange(0xFFFFFFFF, r.choice(["xor", "down", "sync"]), r.choice([1, 2, 5, 16]))
            if form < 0.6:  # a loop that all lanes run together
                body = self.body(depth + 1, (), True, in_function)
                return Loop(Amount("three", 4), body or [self.access()], r.choice(["for", "while"]))
            lanes = r.randint(1, 31)
            low = (1 << lanes) - 1
            then = [
                *self.body(depth + 1, (), False, in_function),
                Exchange(low, r.choice(["xor", "down", "sync"]), 1),
                self.access(),
            ]
            other = [*self.body(depth + 1, (), False, in_function)]
            if r.random() < 0.5:
                other += [Exchange(0xFFFFFFFF & ~low, r.choice(["xor", "down", "sync"]), 2), self.access()]
            return If(Condition("lane", 32, lanes), then, other)
        if what < 0.5 or depth > 3:
            return self.access()
        if what < 0.66:
            then = self.body(depth + 1, deeper, False, in_function) or [self.access()]
            return If(
                self.condition(), then, self.body(depth + 1, deeper, False, in_function) if r.random() < 0.5 else []
            )
        if what < 0.8:
            allowed = (*leave, *self.leaves) if r.random() < 0.8 else ()
            body = self.body(depth + 1, allowed, False, in_function) or [self.access()]
            return Loop(Amount(r.choice(["tid", "acc"]), r.randint(2, 5)), body, r.choice(["for", "while", "do"]))
        if what < 0.84:
            return Switch(
                Amount(r.choice(["tid", "acc"]), 3),
                [self.body(depth + 1, tuple(w for w in deeper if w == "return"), False, in_function) for _ in range(3)],
            )
        if what < 0.92 and leave:
            how = r.choice(leave)
            return If(
                self.condition(), [*([self.access()] if self.access_before(how) else []), Leave(how, self.index())], []
            )
        if self.callable:
            return Call(r.choice(self.callable))
        return self.access()

    def access_before(self, how: str) -> bool:
        return self.r.random() < 0.5

    def access(self) -> Access:
        r = self.r
        kind = r.choice(["load", "load", "load", "store", "store", "shared load", "shared store", "atomic"])
        if kind == "atomic":
            return Access("atomic", r.choice(["counters", "s4", "dyn4"]), self.index())
        if kind.startswith("shared"):
            return Access(kind.split()[1], r.choice(SHARED), self.index())
        return Access(kind, r.choice(LOADED if kind == "load" else STORED), self.index())
