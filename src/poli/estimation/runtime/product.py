"""The inner loop of every linear map, in LLVM's own terms.

Loops over arrays store and load every partial sum; a compiler does not keep them in registers across the loop over inputs. Here a
panel of four outputs by sixteen points stays in eight vector registers while all inputs pass: two loads of points and four of
weights for eight fused multiply-adds."""

from llvmlite import ir
from numba import types
from numba.core import cgutils

from poli.estimation.lanes import LANES, load, offset, spread, store
from poli.kernel import intrinsic

PANEL = 2 * LANES  # points
OUTPUTS = 4


def _panel(outputs: int, rectified: bool):
    """An intrinsic: out = before + weight x on one panel, rectified or not. Arrays are flat float32, each with the index that it
    starts at; weights of an output stand together, and `stride` is from one row of x, of before and of out to the next."""

    @intrinsic
    def panel(_context, weight, weight_start, inputs, x, x_start, before, before_start, out, out_start, stride):
        number = types.intp
        return types.void(weight, number, number, x, number, before, number, out, number, number), generate

    def generate(context, builder, signature, arguments):
        weights, points, begun, sums = (
            context.make_array(signature.args[n])(context, builder, arguments[n]).data for n in (0, 3, 5, 7)
        )
        weight_start, inputs, x_start, before_start, out_start, stride = (arguments[n] for n in (1, 2, 4, 6, 8, 9))
        vector = ir.VectorType(ir.FloatType(), LANES)
        kind = ir.FunctionType(vector, [vector, vector, vector])
        multiply_add = cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{LANES}f32")
        places = [(row, part * LANES) for row in range(outputs) for part in range(2)]

        def at(start, row, lane):
            return builder.add(offset(builder, start, stride, row), ir.Constant(start.type, lane))

        first = [load(builder, begun, at(before_start, *place)) for place in places]
        entry, loop, after = builder.block, builder.append_basic_block("inputs"), builder.append_basic_block("done")
        builder.branch(loop)

        builder.position_at_end(loop)
        i = builder.phi(inputs.type)
        i.add_incoming(ir.Constant(inputs.type, 0), entry)
        running = [builder.phi(vector) for _ in places]
        row_start = builder.add(x_start, builder.mul(i, stride))
        halves = [load(builder, points, at(row_start, 0, part * LANES)) for part in range(2)]
        last = []
        for row in range(outputs):
            place = builder.add(offset(builder, weight_start, inputs, row), i)
            weight = spread(builder, builder.load(builder.gep(weights, [place]), align=4))
            last += [builder.call(multiply_add, [weight, halves[part], running[2 * row + part]]) for part in range(2)]
        following = builder.add(i, ir.Constant(i.type, 1))
        i.add_incoming(following, loop)
        for value, begin, end in zip(running, first, last, strict=True):
            value.add_incoming(begin, entry)
            value.add_incoming(end, loop)
        builder.cbranch(builder.icmp_signed("<", following, inputs), loop, after)

        builder.position_at_end(after)
        if rectified:
            zero = ir.Constant(vector, [0.0] * LANES)
            larger = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(vector, [vector, vector]), f"llvm.maxnum.v{LANES}f32"
            )
            last = [builder.call(larger, [value, zero], fastmath=("nnan", "nsz")) for value in last]
        for place, value in zip(places, last, strict=True):
            store(builder, value, sums, at(out_start, *place))
        return context.get_dummy_value()

    return panel


plain_four, plain_one = _panel(OUTPUTS, False), _panel(1, False)
rectified_four, rectified_one = _panel(OUTPUTS, True), _panel(1, True)
