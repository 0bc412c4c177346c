"""Turns (`threads.run_turns`): four numbers that threads share. They are the next turn, the number of turns, how many threads have
entered, and how many have left."""

from llvmlite import ir
from numba import types

from poli.kernel import intrinsic, kernel


def _add_to(place: int):
    """Return an intrinsic that adds one to a number that threads share, and returns what it was."""

    @intrinsic
    def add(_context, turns):
        return types.int64(turns), generate

    def generate(context, builder, signature, arguments):
        numbers = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        one = ir.Constant(ir.IntType(64), 1)
        return builder.atomic_rmw("add", builder.gep(numbers, [ir.Constant(ir.IntType(64), place)]), one, "seq_cst")

    return add


# `take` returns a number that no other thread has taken. From turns[1] on, nothing is left.
take, _enter, _leave = _add_to(0), _add_to(2), _add_to(3)


@intrinsic
def _peek(_context, turns, place):
    """Return one of the numbers as it is now."""

    def generate(context, builder, signature, arguments):
        numbers = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        return builder.load_atomic(builder.gep(numbers, [arguments[1]]), "seq_cst", 8)

    return types.int64(turns, types.intp), generate


_LOOKS = 20_000  # about a tenth of a millisecond


@kernel
def enter(before, turns):
    """Wait until all turns of the stage before are done, and enter the next. Return False if that takes long."""
    for _ in range(_LOOKS):
        left = _peek(before, 3)  # read first: who enters later does not take a turn
        if _peek(before, 0) >= _peek(before, 1) and _peek(before, 2) == left:
            _enter(turns)
            return True
    return False


@kernel
def leave(turns):
    """Leave a stage."""
    _leave(turns)
