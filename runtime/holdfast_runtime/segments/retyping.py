"""Why: Spark marks as never null, at any depth, what it knows to be so; rows of a node have one type in all batches.

Gives arrays the same type with everything nullable, without touching values. Arrow's own cast refuses nulls that stand
below a null parent. Must not convert anything else.
"""

import pyarrow as pa


def retyped(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """The same values as this type, which differs in nothing but what may be null."""
    if array.type == kind:
        return array
    if pa.types.is_struct(kind):
        fields = [kind.field(at) for at in range(kind.num_fields)]
        children = [retyped(array.field(at), field.type) for at, field in enumerate(fields)]
        return pa.StructArray.from_arrays(children, fields=fields, mask=array.is_null() if array.null_count else None)
    if pa.types.is_map(kind):
        pairs = [retyped(array.keys, kind.key_type), retyped(array.items, kind.item_type)]
        inner = pa.StructArray.from_arrays(pairs, fields=[kind.key_field, kind.item_field])
    elif pa.types.is_list(kind):
        inner = retyped(array.values, kind.value_type)
    else:
        return array.cast(kind)
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [inner])
