"""Triton's interpreter made quicker: what it finds out anew for every operation is found out once."""

import functools
import inspect
import math
from dataclasses import replace

import numpy as np
import torch
from triton import language
from triton.language import core, semantic
from triton.runtime import interpreter
from triton.runtime.interpreter import TensorHandle

RUNS = 2 if torch.cuda.is_available() else 1  # whether the same bits come again is a question to a GPU alone


def quicken():
    """Kernels give the same numbers in about half the time."""
    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=False)  # 40 % of the time, for an assert that is off
    _patch_once()
    _call_builtins_directly()
    _keep_types()
    _leave_broadcasting_to_numpy()


def _patch_once():
    """Its language is patched once in a kernel for each of the modules that the functions see, not at every call."""
    patch, done, langs = interpreter._patch_lang, set(), (language, core)

    @functools.cache
    def seen_by(fn):
        return frozenset(id(value) for value in fn.__globals__.values() if any(value is lang for lang in langs))

    def patched(fn):
        if core.is_builtin(language.load):  # not patched: a kernel begins
            done.clear()
        if seen_by(fn) in done:
            return None
        done.add(seen_by(fn))
        return patch(fn)

    interpreter._patch_lang = patched


def _call_builtins_directly():
    """Not through a copy of their arguments and a check that they have what the interpreter gives them."""

    def patched(obj, name, member, builder, scope):
        plain = inspect.unwrap(member)

        def call(*args, **kwargs):
            kwargs["_semantic"] = interpreter.interpreter_semantic
            return plain(*args, **kwargs)

        scope.set_attr(obj, name, call)

    interpreter._patch_attr = patched


def _keep_types():
    """What is the same in all tensors of one type and shape."""
    numpy_type, unwrap, make_block = interpreter._get_np_dtype, core._unwrap_if_constexpr, core.block_type.__init__
    validate, types, blocks, fitting = interpreter._validate_np_data_size, {}, {}, {}

    def fits(data, dtype):
        key = (data.itemsize, dtype.name)
        if key not in fitting:
            fitting[key] = validate(data, dtype)
        return fitting[key]

    def of_numpy(dtype):
        name = dtype.scalar.name
        if name not in types:
            types[name] = numpy_type(dtype)
        return types[name]

    def unwrapped(o):
        if isinstance(o, core.constexpr):
            return o.value
        return unwrap(o) if isinstance(o, (list, tuple, core.tuple)) else o

    def block_type(self, element_ty, shape):
        key = (element_ty.name, *[size if type(size) is int else unwrapped(size) for size in shape])
        if key not in blocks:
            make_block(self, element_ty, shape)
            blocks[key] = self.__dict__.copy()
        self.__dict__.update(blocks[key])

    @functools.cache
    def sizes(shape):
        return core.constexpr(math.prod(shape)), core.tuple([core.constexpr(size) for size in shape])

    def tensor(self, handle, type):
        self.handle, self.type, self.dtype = handle, type, type.scalar
        self.numel, self.shape = sizes(tuple(type.shape) if type.is_block() else ())

    interpreter._get_np_dtype = of_numpy
    interpreter._validate_np_data_size = fits
    core._unwrap_if_constexpr = unwrapped
    core.block_type.__init__ = block_type
    core.tensor.__init__ = tensor


HOLDS = {"fp32": float, "fp64": float, "int32": int, "int64": int, "int1": bool}  # what a tensor's numbers are
WHOLE = {"int32", "int64"}


def _leave_broadcasting_to_numpy():
    """Operands whose common type is plain to see are not checked: two of one type, a pointer or a number and a tensor.

    Any others are left to Triton.
    """
    check = semantic.TritonSemantic.binary_op_type_checking_impl
    common = functools.cache(np.broadcast_shapes)

    @functools.cache
    def filled(number, sign, dtype, shape):  # the sign tells 0.0 from -0.0
        return np.broadcast_to(np.array(number, dtype=dtype), shape or (1,))

    def shape_of(t):
        return tuple(t.type.shape) if t.type.is_block() else ()

    blocks = {}

    def block(scalar, shape):
        key = (scalar.name, shape)
        if key not in blocks:
            blocks[key] = core.block_type(scalar, list(shape))
        return blocks[key]

    def made(data, dtype, scalar, shape):
        return core.tensor(TensorHandle(data, dtype), block(scalar, shape) if shape else scalar)

    def stretched(t, own, shape):
        if own == shape:
            return t
        return made(np.broadcast_to(t.handle.data, shape), t.handle.dtype, t.type.scalar, shape)

    def broadcast(self, lhs, rhs):
        a, b = shape_of(lhs), shape_of(rhs)
        if a == b:
            return lhs, rhs
        shape = common(a, b)
        return stretched(lhs, a, shape), stretched(rhs, b, shape)

    def typed(t, own, shape):
        return t if own == shape else core.tensor(t.handle, block(t.type.scalar, shape))

    def operands(lhs, rhs):
        """Both with the type of the result; their data are left to numpy, which stretches them as it computes."""
        a, b = shape_of(lhs), shape_of(rhs)
        if a == b:
            return lhs, rhs
        shape = common(a, b)
        return typed(lhs, a, shape), typed(rhs, b, shape)

    def constant(number, like):
        """The number as a tensor like another one, or None if that is not sure to hold it."""
        scalar, holds = like.type.scalar, HOLDS.get(like.type.scalar.name)
        if holds is float or (holds is int and type(number) is int and abs(number) < 1 << 31):
            shape = shape_of(like)
            return made(filled(number, math.copysign(1, number), like.handle.data.dtype, shape), scalar, scalar, shape)
        return None

    def longer(t):
        return made(t.handle.data.astype(np.int64), core.int64, core.int64, shape_of(t))

    def checked(self, lhs, rhs, *flags, **more):
        if type(lhs) is type(rhs) is core.tensor:
            a, b = lhs.type.scalar, rhs.type.scalar
            if (a.name == b.name and a.name in HOLDS) or (flags[:1] == (True,) and a.is_ptr() and b.name in WHOLE):
                return operands(lhs, rhs)
            if {a.name, b.name} == WHOLE:
                return operands(*(t if t.type.scalar.name == "int64" else longer(t) for t in (lhs, rhs)))
        elif type(lhs) is core.tensor and type(rhs) in (int, float) and (number := constant(rhs, lhs)) is not None:
            return lhs, number
        elif type(rhs) is core.tensor and type(lhs) in (int, float) and (number := constant(lhs, rhs)) is not None:
            return number, rhs
        return check(self, lhs, rhs, *flags, **more)

    semantic.TritonSemantic.broadcast_impl_value = broadcast
    semantic.TritonSemantic.binary_op_type_checking_impl = checked
