"""Triton's interpreter made quicker: what it finds out anew for every operation is found out once."""

import functools
import math
from dataclasses import replace

from triton import language
from triton.language import core
from triton.runtime import interpreter


def quicken():
    """Kernels give the same numbers in about half the time."""
    builder = interpreter.interpreter_builder
    builder.options = replace(builder.options, sanitize_overflow=False)  # 40 % of the time, for an assert that is off
    _patch_once()
    _keep_types()


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


def _keep_types():
    """What is the same in all tensors of one type and shape."""
    numpy_type, unwrap, make_block = interpreter._get_np_dtype, core._unwrap_if_constexpr, core.block_type.__init__
    types, blocks = {}, {}

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
        key = (element_ty.name, *map(unwrapped, shape))
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
    core._unwrap_if_constexpr = unwrapped
    core.block_type.__init__ = block_type
    core.tensor.__init__ = tensor
