"""What Java reads and writes of the same records: protobuf-java, as in the serdes of Kafka Streams."""

import struct
import subprocess
import tempfile
import zipfile
from pathlib import Path

import pyarrow as pa

from bench.kafka.jars import jars

HERE = Path(__file__).parent


def of_java(text: str, values: pa.BinaryArray) -> dict[str, float]:
    """Rows per CPU second, by what is done with them: one record at a time, by a class that is made of the message."""
    places = jars("protobuf-java", HERE).split(",")
    (protoc,) = Path(places[0]).parent.glob("protoc-*.exe")
    protoc.chmod(0o755)
    class_path = ":".join(places)
    with tempfile.TemporaryDirectory() as folder:
        message, records = Path(folder) / "click.proto", Path(folder) / "records"
        message.write_text(text)
        records.write_bytes(b"".join(struct.pack(">i", len(value)) + value for value in values.to_pylist()))
        with zipfile.ZipFile(next(path for path in places if "/protobuf-java-" in path)) as jar:
            jar.extract("google/protobuf/timestamp.proto", folder)
        _run([str(protoc), f"--proto_path={folder}", f"--java_out={folder}", str(message)])
        sources = [str(path) for path in Path(folder).rglob("*.java")]
        _run(["javac", "-cp", class_path, "-d", folder, str(HERE / "ProtobufSerde.java"), *sources])
        options = ["-XX:+UseSerialGC", "-Xmn512m", "-cp", f"{class_path}:{folder}"]
        rates = _run(["java", *options, "ProtobufSerde", str(records)]).split()
    names = (
        "decode by protobuf-java",
        "the same, and all fields asked for",
        "encode by protobuf-java, messages made for it",
        "the same, messages that are there",
    )
    return dict(zip(names, map(float, rates), strict=True))


def _run(command: list[str]) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=600)  # noqa: S603 - of Java
    return done.stdout
