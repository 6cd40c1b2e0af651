"""What calls row by row cost: a service that answers after 20 ms, by plain `apply` and by `apply` with `concurrency`.

`python bench/async_apply.py`. A service on this host answers one line for another; the plain function asks it over one
connection, the coroutine over one connection per call under way. The last figures are of a coroutine that asks nobody.
"""

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from holdfast_runtime.steps.outcome import StepOutcome
from holdfast_runtime.steps.plain.apply import UserFunction, apply_or_name
from holdfast_runtime.steps.plain.async_apply import CallLimits, apply_each
from holdfast_runtime.steps.timed_rows import TimedRows

DELAY = 0.02
SCHEMA = pa.schema([("n", pa.int64())])
_idle: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []


async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer each line with itself, after a while."""
    while line := await reader.readline():
        await asyncio.sleep(DELAY)
        writer.write(line)


def started() -> tuple[str, int]:
    """Start the service in a thread; return its address."""
    loop = asyncio.new_event_loop()
    server = loop.run_until_complete(asyncio.start_server(answer, "127.0.0.1", 0))
    threading.Thread(target=loop.run_forever, daemon=True).start()
    host, port = server.sockets[0].getsockname()
    return str(host), int(port)


def plain(address: tuple[str, int]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return a function over batches that asks for one row after the other."""

    def ask(batch: pa.RecordBatch) -> pa.RecordBatch:
        with socket.create_connection(address) as connection, connection.makefile("rwb", buffering=0) as lines:
            answers = []
            for number in batch["n"].to_pylist():
                lines.write(b"%d\n" % number)
                answers.append(int(lines.readline()))
        return pa.RecordBatch.from_arrays([pa.array(answers)], schema=SCHEMA)

    return ask


def coroutine(address: tuple[str, int]) -> Callable[[dict[str, Any]], Any]:
    """Return a coroutine over a row that asks on a connection that nobody else uses."""

    async def ask(row: dict[str, Any]) -> dict[str, Any]:
        reader, writer = _idle.pop() if _idle else await asyncio.open_connection(*address)
        writer.write(b"%d\n" % row["n"])
        line = await reader.readline()
        _idle.append((reader, writer))
        return {"n": int(line)}

    return ask


async def same(row: dict[str, Any]) -> dict[str, Any]:
    """Ask nobody."""
    return row


def measure(name: str, rows: int, run: Callable[[TimedRows], StepOutcome]) -> None:
    """Print a row."""
    numbers = pa.RecordBatch.from_arrays([pa.array(range(rows))], schema=SCHEMA)
    timed = TimedRows(numbers, pa.array(range(rows), pa.int64()))
    run(timed.part(0, 1))
    started_at, cpu = time.perf_counter(), time.process_time()
    outcome = run(timed)
    seconds, cpu = time.perf_counter() - started_at, time.process_time() - cpu
    assert outcome.rows.rows.equals(numbers)  # noqa: S101 - a figure of wrong rows is none
    print(f"{name:>24} {rows / seconds:>10.0f} {cpu / rows * 1e6:>10.1f}")


def main() -> None:
    """Print a row per way of asking."""
    print(f"{'':>24} {'rows/s':>10} {'CPU us/row':>10}")
    address = started()
    function = UserFunction("asked", "bench:ask", plain(address), SCHEMA)
    measure("apply", 100, lambda rows: apply_or_name(function, rows))
    asking = UserFunction("asked", "bench:ask", coroutine(address), SCHEMA)
    for concurrency in (1, 16, 64, 256):
        limits = CallLimits(concurrency, 30.0)
        measure(
            f"concurrency {concurrency}",
            100 * concurrency,
            lambda rows, limits=limits: apply_each(asking, limits, rows, apart=False),  # type: ignore[misc]
        )
    nobody = UserFunction("asked", "bench:same", same, SCHEMA)
    measure("64, asking nobody", 100_000, lambda rows: apply_each(nobody, CallLimits(64, 30.0), rows, apart=False))


if __name__ == "__main__":
    main()
