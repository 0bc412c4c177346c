"""The inner loop of every linear map, written in LLVM IR.

In plain loops the compiler stores and loads every partial sum instead of keeping it in a register across the loop over inputs. Here
a panel of four outputs by two vectors of points stays in eight vector registers during the whole loop: two loads of points and four
of weights for eight fused multiply-adds. A vector has eight floats, or sixteen on a CPU with AVX-512."""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from poli.kernel import intrinsic
from poli.simd import data_of, loop, offset, widest_vector

OUTPUTS = 4


@intrinsic
def panel_points(_context):
    """Return the number of points per panel: two vectors."""
    return types.intp(), lambda context, builder, signature, arguments: ir.Constant(
        context.get_value_type(types.intp), 2 * widest_vector()
    )


def _panel(outputs: int, rectified: bool):
    """Return an intrinsic that computes out = before + weight x on one panel, with a ReLU if `rectified`.

    Arrays are flat float32, each with its start index; the weights of an output are contiguous, and `stride` is the distance
    between rows of x, of before and of out."""

    @intrinsic
    def panel(_context, weight, weight_start, inputs, x, x_start, before, before_start, out, out_start, stride):
        number = types.intp
        return types.void(weight, number, number, x, number, before, number, out, number, number), generate

    def generate(context, builder, signature, arguments):
        weights, points, begun, sums = (data_of(context, builder, signature.args[n], arguments[n]) for n in (0, 3, 5, 7))
        weight_start, inputs, x_start, before_start, out_start, stride = (arguments[n] for n in (1, 2, 4, 6, 8, 9))
        lanes = widest_vector()
        vector = ir.VectorType(ir.FloatType(), lanes)
        places = [(row, part * lanes) for row in range(outputs) for part in range(2)]

        def function(name: str, arity: int):
            kind = ir.FunctionType(vector, [vector] * arity)
            return cgutils.get_or_insert_function(builder.module, kind, f"llvm.{name}.v{lanes}f32")

        def at(data, start, row, lane):
            index = builder.add(offset(builder, start, stride, row), ir.Constant(start.type, lane))
            return builder.bitcast(builder.gep(data, [index]), vector.as_pointer())

        def spread(number):
            single = builder.insert_element(ir.Constant(vector, ir.Undefined), number, ir.Constant(ir.IntType(32), 0))
            everywhere = ir.Constant(ir.VectorType(ir.IntType(32), lanes), [0] * lanes)
            return builder.shuffle_vector(single, ir.Constant(vector, ir.Undefined), everywhere)

        def add_input(i, running):
            row_start = builder.add(x_start, builder.mul(i, stride))
            halves = [builder.load(at(points, row_start, 0, part * lanes), align=4) for part in range(2)]
            following = []
            for row in range(outputs):
                place = builder.add(offset(builder, weight_start, inputs, row), i)
                weight = spread(builder.load(builder.gep(weights, [place]), align=4))
                following += [builder.call(multiply_add, [weight, halves[part], running[2 * row + part]]) for part in range(2)]
            return following

        multiply_add, larger = function("fma", 3), function("maxnum", 2)
        last = loop(builder, inputs, [builder.load(at(begun, before_start, *place), align=4) for place in places], add_input)
        if rectified:
            zero = ir.Constant(vector, [0.0] * lanes)
            last = [builder.call(larger, [value, zero], fastmath=("nnan", "nsz")) for value in last]
        for place, value in zip(places, last, strict=True):
            builder.store(value, at(sums, out_start, *place), align=4)
        return context.get_dummy_value()

    return panel


plain_four, plain_one = _panel(OUTPUTS, False), _panel(1, False)
rectified_four, rectified_one = _panel(OUTPUTS, True), _panel(1, True)
