"""Operations on eight floats at once, written in LLVM IR because compilers do not vectorize short loops.

LLVM lowers them to the vector instructions of each CPU."""

from __future__ import annotations

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils

from poli.kernel import config, intrinsic

LANES = 8
_FLOATS, _NUMBER = ir.VectorType(ir.FloatType(), LANES), types.intp


def widest_vector() -> int:
    """Return the number of floats in a vector register of this CPU: 16 with AVX-512, else 8."""
    return 16 if config.ENABLE_AVX and binding.get_host_cpu_features().get("avx512f") else 8


def data_of(context, builder, kind, array):
    """Return the pointer to the data of an array."""
    return context.make_array(kind)(context, builder, array).data


def load(builder, data, index, lanes=LANES):
    """Load a vector of floats from `index` on."""
    pointer = ir.VectorType(ir.FloatType(), lanes).as_pointer()
    return builder.load(builder.bitcast(builder.gep(data, [index]), pointer), align=4)


def store(builder, vector, data, index):
    """Store a vector of floats from `index` on."""
    builder.store(vector, builder.bitcast(builder.gep(data, [index]), vector.type.as_pointer()), align=4)


def spread(builder, number, lanes=LANES):
    """Broadcast a number to all lanes."""
    nothing = ir.Constant(ir.VectorType(ir.FloatType(), lanes), ir.Undefined)
    single = builder.insert_element(nothing, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(single, nothing, ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes))


def call(builder, name, *vectors, **options):
    """Call LLVM's function of this name on vectors of floats."""
    kind = vectors[0].type
    signature = ir.FunctionType(kind, [kind] * len(vectors))
    function = cgutils.get_or_insert_function(builder.module, signature, f"llvm.{name}.v{kind.count}f32")
    return builder.call(function, vectors, **options)


class Vector:
    """Eight floats with operators, so that code that builds instructions reads like the computation."""

    def __init__(self, builder, value) -> None:
        self.builder, self.value = builder, value

    @staticmethod
    def _value(other):
        return other.value if isinstance(other, Vector) else ir.Constant(_FLOATS, [other] * LANES)

    def _with(self, other, operation) -> Vector:
        build = getattr(self.builder, operation)
        return Vector(self.builder, build(self.value, self._value(other), flags=("contract", "nsz", "nnan")))

    def __add__(self, other) -> Vector:
        return self._with(other, "fadd")

    def __sub__(self, other) -> Vector:
        return self._with(other, "fsub")

    def __mul__(self, other) -> Vector:
        return self._with(other, "fmul")

    def __truediv__(self, other) -> Vector:
        return self._with(other, "fdiv")

    def __lt__(self, other):
        return self.builder.fcmp_ordered("<", self.value, self._value(other))

    def root(self) -> Vector:
        """Return the square root."""
        return self._call("sqrt")

    def larger(self, other: Vector | float) -> Vector:
        """Return the larger of each pair."""
        return self._call("maxnum", other)

    def exponential(self) -> Vector:
        """Return exp, to two units in the last place, for numbers between -87 and 88."""
        whole = (self * 1.4426950408889634)._call("nearbyint")
        rest = self - whole * 0.693359375 + whole * 2.12194440e-4  # ln 2 in two parts
        series = rest * 1.9875691500e-4 + 1.3981999507e-3
        for coefficient in (8.3334519073e-3, 4.1665795894e-2, 1.6666665459e-1, 5.0000001201e-1, 1.0, 1.0):
            series = series * rest + coefficient
        integers = ir.VectorType(ir.IntType(32), LANES)
        power = self.builder.fptosi(whole.value, integers)
        power = self.builder.add(power, ir.Constant(integers, [127] * LANES))
        power = self.builder.shl(power, ir.Constant(integers, [23] * LANES))
        return series * Vector(self.builder, self.builder.bitcast(power, _FLOATS))

    def _call(self, name: str, *others: Vector | float) -> Vector:
        values = (self.value, *map(self._value, others))
        return Vector(self.builder, call(self.builder, name, *values, fastmath=("nnan", "nsz")))

    def where(self, condition, other: Vector) -> Vector:
        """Select this vector where the condition holds, the other elsewhere."""
        return Vector(self.builder, self.builder.select(condition, self.value, other.value))


def loop(builder, count, start, step):
    """Build a loop over i in range(count), count > 0, whose values stay in registers, and return the last values.

    Values are initially `start`; `step(i, values)` returns the next ones."""
    before, body, after = builder.block, builder.append_basic_block("loop"), builder.append_basic_block("done")
    builder.branch(body)
    builder.position_at_end(body)
    i = builder.phi(count.type)
    i.add_incoming(ir.Constant(count.type, 0), before)
    values = [builder.phi(value.type) for value in start]
    ends = step(i, values)
    following = builder.add(i, ir.Constant(i.type, 1))
    i.add_incoming(following, builder.block)
    for value, first, last in zip(values, start, ends, strict=True):
        value.add_incoming(first, before)
        value.add_incoming(last, builder.block)
    builder.cbranch(builder.icmp_signed("<", following, count), body, after)
    builder.position_at_end(after)
    return ends


def transpose(builder, rows):
    """Transpose eight vectors of eight: the perfect shuffle, three times."""
    places = range(LANES // 2)
    kind = ir.VectorType(ir.IntType(32), LANES)
    low = ir.Constant(kind, [i + part for i in places for part in (0, LANES)])
    high = ir.Constant(kind, [LANES // 2 + i + part for i in places for part in (0, LANES)])
    for _ in range(3):
        pairs = [(rows[i], rows[i + LANES // 2]) for i in places]
        rows = [builder.shuffle_vector(a, b, half) for a, b in pairs for half in (low, high)]
    return rows


def offset(builder, start, step, times):
    """Return start + step * times."""
    return builder.add(start, builder.mul(step, ir.Constant(step.type, times)))


def _one_of_two(name: str):
    def generate(_context, builder, signature, arguments):
        kind = arguments[0].type
        function = builder.module.declare_intrinsic(name, [kind], ir.FunctionType(kind, [kind, kind]))
        return builder.call(function, arguments, fastmath=("nnan", "nsz"))

    return generate


@intrinsic
def larger(_context, a, b):
    """Return the larger of two numbers in one instruction. A condition would become a masked store, which is slow on some CPUs."""
    return (a(a, a), _one_of_two("llvm.maxnum")) if a == b else None


@intrinsic
def smaller(_context, a, b):
    """Return the smaller of two numbers, as `larger`."""
    return (a(a, a), _one_of_two("llvm.minnum")) if a == b else None


@intrinsic
def gather_eight(_context, table, starts, first, channel, own, own_start, own_stride, out, out_start, stride):
    """Compute out[c, p] = table[starts[p] + c] + own[c, p] for eight points p and eight channels c.

    Arrays are flat. Points start at `first` in `starts`, channels at `channel`; rows of `own` are `own_stride` apart, those of
    `out` `stride`."""

    def generate(context, builder, signature, arguments):
        table, starts, own, out = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 1, 4, 7))
        first, channel, own_start, own_stride, out_start, stride = (arguments[n] for n in (2, 3, 5, 6, 8, 9))
        rows = []
        for p in range(LANES):
            start = builder.load(builder.gep(starts, [builder.add(first, ir.Constant(first.type, p))]))
            rows.append(load(builder, table, builder.add(start, channel)))
        for c, row in enumerate(transpose(builder, rows)):
            mine = load(builder, own, offset(builder, own_start, own_stride, c))
            store(builder, builder.fadd(row, mine), out, offset(builder, out_start, stride, c))
        return context.get_dummy_value()

    return types.void(table, starts, _NUMBER, _NUMBER, own, _NUMBER, _NUMBER, out, _NUMBER, _NUMBER), generate


@intrinsic
def transpose_eight(_context, source, start, stride, target, target_start, target_stride):
    """Transpose a block of eight by eight numbers: target[j, i] = source[i, j]. Arrays are flat."""

    def generate(context, builder, signature, arguments):
        source, target = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 3))
        start, stride, target_start, target_stride = (arguments[n] for n in (1, 2, 4, 5))
        rows = [load(builder, source, offset(builder, start, stride, i)) for i in range(LANES)]
        for j, row in enumerate(transpose(builder, rows)):
            store(builder, row, target, offset(builder, target_start, target_stride, j))
        return context.get_dummy_value()

    return types.void(source, _NUMBER, _NUMBER, target, _NUMBER, _NUMBER), generate


@intrinsic
def squared_distances(_context, X, Y, Z, first, x, y, z, out, place):
    """Write the squared distances of (x, y, z) to the points first to first + 7 into out[place : place + 8]."""

    def generate(context, builder, signature, arguments):
        first, out, place = arguments[3], data_of(context, builder, signature.args[7], arguments[7]), arguments[8]
        total = None
        for axis in range(3):
            row = load(builder, data_of(context, builder, signature.args[axis], arguments[axis]), first)
            away = builder.fsub(row, spread(builder, arguments[4 + axis]))
            square = builder.fmul(away, away, flags=("contract",))
            total = square if total is None else builder.fadd(total, square, flags=("contract",))
        store(builder, total, out, place)
        return context.get_dummy_value()

    return types.void(X, Y, Z, _NUMBER, types.float32, types.float32, types.float32, out, _NUMBER), generate


@intrinsic
def not_above(_context, values, place, limit):
    """Return a bit mask: bit i is set if values[place + i] <= limit."""

    def generate(context, builder, signature, arguments):
        data = data_of(context, builder, signature.args[0], arguments[0])
        below = builder.fcmp_ordered("<=", load(builder, data, arguments[1]), spread(builder, arguments[2]))
        return builder.zext(builder.bitcast(below, ir.IntType(LANES)), ir.IntType(64))

    return _NUMBER(values, _NUMBER, types.float32), generate


@intrinsic
def count_bits(_context, bits):
    """Return the number of set bits."""
    return _NUMBER(_NUMBER), lambda _context, builder, _signature, arguments: builder.ctpop(arguments[0])


@intrinsic
def lowest_bit(_context, bits):
    """Return the index of the lowest set bit of a nonzero number."""
    nonzero = ir.Constant(ir.IntType(1), 1)
    return _NUMBER(_NUMBER), lambda _context, builder, _signature, arguments: builder.cttz(arguments[0], nonzero)
