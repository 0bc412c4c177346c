"""The function by which Python enters a kernel: it makes numba's arguments out of slots (see `layout`)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.registry import cpu_target
from numba.np.arrayobj import populate_array
from numba.np.numpy_support import as_dtype

from poli.ahead.layout import DATA_AT, SHAPE_AT

_WORD = ir.IntType(64)
_TUPLE: Any = types.BaseTuple
_NUMBERS = {types.int64: "i8", types.float64: "f8", types.float32: "f4", types.boolean: "b1"}


def layout_of(arguments: Sequence[Any], begin: int, end: int) -> str:
    """Of all arguments but the range, in the words of `layout`."""
    return " ".join(_word(kind) for place, kind in enumerate(arguments) if place not in (begin, end))


def _word(kind: Any) -> str:
    if isinstance(kind, _TUPLE):
        return " ".join(_word(member) for member in kind)
    if isinstance(kind, types.Array) and kind.layout == "C":
        return f"{as_dtype(kind.dtype).str[1:]}[{kind.ndim}]"
    if kind not in _NUMBERS:
        raise TypeError(f"a kernel takes {kind}; expected contiguous arrays, numbers, and tuples of these")
    return _NUMBERS[kind]


def add_entry(module: ir.Module, name: str, kernel: Any, begin: int, end: int) -> None:
    """To this module: int32 name(slots, begin, end), zero if all went well. `kernel` is numba's description of its function."""
    context = cpu_target.target_context
    kind = context.call_conv.get_function_type(kernel.restype, kernel.argtypes)
    compiled = ir.Function(module, kind, kernel.llvm_func_name)
    entry = ir.Function(module, ir.FunctionType(ir.IntType(32), [_WORD.as_pointer(), _WORD, _WORD]), name)
    builder = ir.IRBuilder(entry.append_basic_block())
    taken = 0

    def take() -> ir.Value:
        nonlocal taken
        taken += 1
        return builder.load(builder.gep(entry.args[0], [ir.Constant(_WORD, taken - 1)]))

    given = {begin: entry.args[1], end: entry.args[2]}
    values = [given.get(place) or _value(context, builder, kind, take) for place, kind in enumerate(kernel.argtypes)]
    status, _ = context.call_conv.call_function(builder, compiled, kernel.restype, kernel.argtypes, values)
    builder.ret(status.code)


def _value(context: Any, builder: ir.IRBuilder, kind: Any, take: Callable[[], ir.Value]) -> ir.Value:
    if isinstance(kind, _TUPLE):
        return context.make_tuple(builder, kind, [_value(context, builder, member, take) for member in kind])
    if isinstance(kind, types.Array):
        return _array(context, builder, kind, take)
    bits = take()
    if kind == types.float64:
        return builder.bitcast(bits, ir.DoubleType())
    if kind == types.float32:
        return builder.bitcast(builder.trunc(bits, ir.IntType(32)), ir.FloatType())
    return builder.trunc(bits, ir.IntType(1)) if kind == types.boolean else bits


def _array(context: Any, builder: ir.IRBuilder, kind: Any, take: Callable[[], ir.Value]) -> ir.Value:
    element, numpy_object = context.get_data_type(kind.dtype), take()

    def field(place: int, pointer: ir.Type) -> ir.Value:
        address = builder.add(numpy_object, ir.Constant(_WORD, place))
        return builder.load(builder.inttoptr(address, pointer.as_pointer()))

    extents = field(SHAPE_AT, _WORD.as_pointer())
    shape = [builder.load(builder.gep(extents, [ir.Constant(_WORD, axis)])) for axis in range(kind.ndim)]
    size = ir.Constant(_WORD, context.get_abi_sizeof(element))
    strides = [size]
    for extent in reversed(shape[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    array = context.make_array(kind)(context, builder)
    data = field(DATA_AT, element.as_pointer())
    populate_array(array, data=data, shape=shape, strides=strides, itemsize=size, meminfo=None)
    return array._getvalue()
