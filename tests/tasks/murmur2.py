"""Kafka's default partitioner, to place real keys in tests: murmur2 with Kafka's seed, sign bit cut off."""

SEED = 0x9747B28C
FACTOR = 0x5BD1E995
WORD = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    length = len(data)
    state = (SEED ^ length) & WORD
    for i in range(0, length - length % 4, 4):
        block = int.from_bytes(data[i : i + 4], "little")
        block = block * FACTOR & WORD
        block = (block ^ block >> 24) * FACTOR & WORD
        state = (state * FACTOR & WORD) ^ block
    rest = data[length - length % 4 :]
    if rest:
        state = (state ^ int.from_bytes(rest, "little")) * FACTOR & WORD
    state = (state ^ state >> 13) * FACTOR & WORD
    return state ^ state >> 15


def partition_of(key: bytes, partitions: int) -> int:
    return (murmur2(key) & 0x7FFFFFFF) % partitions
