"""Operations on vectors of floats, written in LLVM IR because compilers do not vectorize short loops.

LLVM lowers them to the vector instructions of each CPU."""

from __future__ import annotations

from llvmlite import binding, ir
from numba import types
from numba.core import cgutils

from poli.kernel import config, intrinsic

LANES = 8
MOST_LANES = 16
_NUMBER = types.intp


def widest_vector() -> int:
    """Return the number of floats in a vector register of this CPU: 16 with AVX-512, else 8, as for CPUs named to numba."""
    here = config.ENABLE_AVX and config.CPU_NAME is None
    return MOST_LANES if here and binding.get_host_cpu_features().get("avx512f") else LANES


@intrinsic
def widest_lanes(_context):
    """Return `widest_vector()` in a kernel."""
    return _NUMBER(), lambda context, builder, signature, arguments: ir.Constant(ir.IntType(64), widest_vector())


def data_of(context, builder, kind, array):
    """Return the pointer to the data of an array."""
    return context.make_array(kind)(context, builder, array).data


def load(builder, data, index, lanes=LANES, kind=None):
    """Load a vector from `index` on, of floats if no `kind` is given."""
    pointer = ir.VectorType(kind or ir.FloatType(), lanes).as_pointer()
    return builder.load(builder.bitcast(builder.gep(data, [index]), pointer), align=4)


def store(builder, vector, data, index):
    """Store a vector from `index` on."""
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


# Coefficients of the series of log(1 + m) / m^3 + ..., from the highest power on (Cephes).
LOGARITHM = (
    7.0376836292e-2, -1.1514610310e-1, 1.1676998740e-1, -1.2420140846e-1, 1.4249322787e-1, -1.6668057665e-1, 2.0000714765e-1,
    -2.4999993993e-1, 3.3333331174e-1,
)  # fmt: skip


class Vector:
    """A vector of floats with operators, so that code that builds instructions reads like the computation."""

    def __init__(self, builder, value) -> None:
        self.builder, self.value = builder, value

    def _value(self, other):
        return other.value if isinstance(other, Vector) else ir.Constant(self.value.type, [other] * self.value.type.count)

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

    def constant(self, number: float) -> Vector:
        """Return a vector of this number."""
        return Vector(self.builder, self._value(number))

    def root(self) -> Vector:
        """Return the square root."""
        return self._call("sqrt")

    def magnitude(self) -> Vector:
        """Return the absolute value."""
        return self._call("fabs")

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
        lanes = self.value.type.count
        integers = ir.VectorType(ir.IntType(32), lanes)
        power = self.builder.fptosi(whole.value, integers)
        power = self.builder.add(power, ir.Constant(integers, [127] * lanes))
        power = self.builder.shl(power, ir.Constant(integers, [23] * lanes))
        return series * Vector(self.builder, self.builder.bitcast(power, self.value.type))

    def logarithm(self) -> Vector:
        """Return log, to two units in the last place, for positive normal numbers."""
        whole = ir.VectorType(ir.IntType(32), self.value.type.count)

        def integer(value):
            return ir.Constant(whole, [value] * whole.count)

        bits = self.builder.bitcast(self.value, whole)
        # x = 2^n m with m between 0.7 and 1.4, for which the series in m - 1 converges fast.
        n = self.builder.ashr(self.builder.sub(bits, integer(0x3F3504F3)), integer(23))
        m = self.builder.bitcast(self.builder.sub(bits, self.builder.shl(n, integer(23))), self.value.type)
        m, e = Vector(self.builder, m) - 1.0, Vector(self.builder, self.builder.sitofp(n, self.value.type))
        series = m * LOGARITHM[0] + LOGARITHM[1]
        for coefficient in LOGARITHM[2:]:
            series = series * m + coefficient
        square = m * m
        return m + (series * m * square - square * 0.5 - e * 2.12194440e-4) + e * 0.693359375

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


def _differences(share: int):
    """Return an intrinsic for points of which `share` consecutive ones have the same name."""

    @intrinsic
    def differences(_context, table, names, place, at, unit, out, stride):
        return types.void(table, names, _NUMBER, at, unit, out, _NUMBER), generate

    def generate(context, builder, signature, arguments):
        table, names, at, unit, out = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 1, 3, 4, 5))
        place, stride = arguments[2], arguments[6]
        double, single = ir.VectorType(ir.DoubleType(), LANES), ir.VectorType(ir.FloatType(), LANES)
        rows = []
        for p in range(0, LANES, share):
            name = builder.load(builder.gep(names, [builder.add(place, ir.Constant(place.type, p))]))
            rows.append(builder.mul(builder.sext(name, place.type), ir.Constant(place.type, 3)))
        scale = load(builder, unit, place, LANES, ir.DoubleType())
        for axis in range(3):
            there = ir.Constant(double, ir.Undefined)
            values = [builder.load(builder.gep(table, [builder.add(row, ir.Constant(place.type, axis))])) for row in rows]
            for p in range(LANES):
                there = builder.insert_element(there, values[p // share], ir.Constant(ir.IntType(32), p))
            start = offset(builder, place, stride, axis)
            away = builder.fsub(there, load(builder, at, start, LANES, ir.DoubleType()))
            store(builder, builder.fptrunc(builder.fmul(away, scale), single), out, start)
        return context.get_dummy_value()

    return differences


# Compute out[a, p] = (table[names[p], a] - at[a, p]) unit[p] for the three axes a and eight points p from `place` on, in float64.
# Arrays are flat; rows of `at` and `out` are `stride` apart. The second is for names that come in fours.
gather_differences, gather_shared_differences = _differences(1), _differences(4)


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
    """Write the squared distances of (x, y, z) to a vector of points, from `first` on, into `out` from `place` on."""

    def generate(context, builder, signature, arguments):
        lanes, out = widest_vector(), data_of(context, builder, signature.args[7], arguments[7])
        first, place = arguments[3], arguments[8]
        total = None
        for axis in range(3):
            row = load(builder, data_of(context, builder, signature.args[axis], arguments[axis]), first, lanes)
            away = builder.fsub(row, spread(builder, arguments[4 + axis], lanes))
            total = _add_square(builder, total, away)
        store(builder, total, out, place)
        return context.get_dummy_value()

    return types.void(X, Y, Z, _NUMBER, types.float32, types.float32, types.float32, out, _NUMBER), generate


def _add_square(builder, total, value):
    square = builder.fmul(value, value, flags=("contract",))
    return square if total is None else builder.fadd(total, square, flags=("contract",))


@intrinsic
def boxes_within(_context, boxes, place, box, limit):
    """Return a bit mask: bit i is set if the squared distance between the boxes `place` + i and `box` does not exceed `limit`.

    The rows of `boxes` are the lower corners by axis, then the upper ones, and so are the numbers of `box`."""

    def generate(context, builder, signature, arguments):
        lanes, place, limit = widest_vector(), arguments[1], arguments[3]
        array = context.make_array(signature.args[0])(context, builder, arguments[0])
        stride = cgutils.unpack_tuple(builder, array.shape)[1]
        corners = [spread(builder, corner, lanes) for corner in cgutils.unpack_tuple(builder, arguments[2])]
        total, zero = None, ir.Constant(ir.VectorType(ir.FloatType(), lanes), [0.0] * lanes)
        for axis in range(3):
            low, high = (load(builder, array.data, offset(builder, place, stride, axis + part), lanes) for part in (0, 3))
            apart = builder.fsub(low, corners[3 + axis]), builder.fsub(corners[axis], high)
            away = call(builder, "maxnum", *apart, fastmath=("nnan",))
            total = _add_square(builder, total, call(builder, "maxnum", away, zero, fastmath=("nnan",)))
        return _mask(builder, builder.fcmp_ordered("<=", total, spread(builder, limit, lanes)))

    return _NUMBER(boxes, _NUMBER, types.UniTuple(types.float32, 6), types.float32), generate


@intrinsic
def not_above(_context, values, place, limit):
    """Return a bit mask for a vector of values: bit i is set if values[place + i] <= limit."""

    def generate(context, builder, signature, arguments):
        lanes, data = widest_vector(), data_of(context, builder, signature.args[0], arguments[0])
        limit = spread(builder, arguments[2], lanes)
        return _mask(builder, builder.fcmp_ordered("<=", load(builder, data, arguments[1], lanes), limit))

    return _NUMBER(values, _NUMBER, types.float32), generate


def _mask(builder, condition):
    """Return a vector of conditions as the bits of a number."""
    return builder.zext(builder.bitcast(condition, ir.IntType(condition.type.count)), ir.IntType(64))


@intrinsic
def insert(_context, value, name, place, least, names, count, stride):
    """Insert a vector of values, with their names, into `count` sorted rows of the least so far, after equal ones.

    The largest is lost. Arrays are flat; rows of `least` and `names` are `stride` apart, and columns start at `place`."""

    def generate(context, builder, signature, arguments):
        value, name, least, names = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 1, 3, 4))
        place, count, stride = (arguments[n] for n in (2, 5, 6))
        lanes, whole = widest_vector(), ir.IntType(32)

        def next_row(r, values):
            at = builder.add(place, builder.mul(r, stride))
            mine, called, displaced = values
            best, known = load(builder, least, at, lanes), load(builder, names, at, lanes, whole)
            # What is displaced displaces the next, even if that is its equal.
            wins = builder.or_(displaced, builder.fcmp_ordered("<", mine, best))
            store(builder, builder.select(wins, mine, best), least, at)
            store(builder, builder.select(wins, called, known), names, at)
            return [builder.select(wins, best, mine), builder.select(wins, known, called), wins]

        nobody = ir.Constant(ir.VectorType(ir.IntType(1), lanes), [0] * lanes)
        loop(builder, count, [load(builder, value, place, lanes), load(builder, name, place, lanes, whole), nobody], next_row)
        return context.get_dummy_value()

    return types.void(value, name, _NUMBER, least, names, _NUMBER, _NUMBER), generate


@intrinsic
def count_bits(_context, bits):
    """Return the number of set bits."""
    return _NUMBER(_NUMBER), lambda _context, builder, _signature, arguments: builder.ctpop(arguments[0])


@intrinsic
def lowest_bit(_context, bits):
    """Return the index of the lowest set bit of a nonzero number."""
    nonzero = ir.Constant(ir.IntType(1), 1)
    return _NUMBER(_NUMBER), lambda _context, builder, _signature, arguments: builder.cttz(arguments[0], nonzero)
