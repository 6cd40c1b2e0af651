"""Answers of an object store that are damaged, missing or a refusal: read again, or reported as what they are."""

import logging
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.errors import UserActionError
from holdfast_runtime.checkpoint.identity import take_up
from holdfast_runtime.checkpoint.query_copy import QueryCopy
from holdfast_runtime.state.durable.object_answers import (
    WAITS,
    ClientFinding,
    FailureKind,
    ShortAnswerError,
    asked_again,
    finding_in,
    kind_of,
)
from holdfast_runtime.state.durable.object_storage import ObjectStorage
from holdfast_runtime.state.durable.storage import Chunk
from holdfast_runtime.state.errors import CheckpointUnavailableError, DeleteRefusedError
from tests.s3.damaging import Damaging, Spoil, broken_off, cut, failed, garbled, without_checksums
from tests.s3.gateway import Gateway
from tests.state.places import Disk, history, lose

CONTENT = bytes(range(256)) * 40
SPOILS = {
    "cut": cut,
    "cut, of a store without checksums": without_checksums(cut),
    "broken off": broken_off,
    "garbled": garbled,
    "failed": failed,
}


@pytest.fixture
def damaging(gateway: Gateway) -> Iterator[Damaging]:
    with Damaging(gateway.bucket()) as spoiled:
        yield spoiled


def whole(storage: ObjectStorage, name: str) -> bytes:
    with storage.reading(name) as read:
        return b"".join(iter(lambda: read(700), b""))


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
@pytest.mark.parametrize("read", [ObjectStorage.read, whole])
def test_an_object_whose_answer_is_damaged_once_is_read_again(
    damaging: Damaging, spoil: Spoil, read: Callable[[ObjectStorage, str], bytes]
) -> None:
    storage = damaging.bucket.storage
    storage.write("one", [CONTENT])
    damaging.next("GET", "one", spoil)
    assert read(storage, "one") == CONTENT


# A store sends no checksum of a part: the frames of a snapshot have their own.
@pytest.mark.parametrize("spoil", [cut, broken_off, failed])
def test_a_damaged_part_of_a_large_object_is_read_again(damaging: Damaging, spoil: Spoil) -> None:
    storage, parts = damaging.bucket.storage, [bytes([number]) * (8 << 20) for number in range(4)]
    storage.write("large", parts)
    with storage.reading("large") as read:
        assert read(700) == parts[0][:700]
        damaging.next("GET", "large", spoil)
        assert read(8 << 20) + read(32 << 20) == b"".join(parts)[700:]
    assert sum(request.startswith("GET") and "large" in request for request in damaging.requests) == len(parts) + 1


@pytest.mark.parametrize("last", [0x00, 0xA5, 0x5A, 0xFF])
def test_an_object_may_end_with_any_byte(damaging: Damaging, last: int) -> None:
    content = bytes([last])
    damaging.behind.storage.write("one", [content])
    assert damaging.behind.storage.read("one") == content


@pytest.mark.parametrize("spoil", [cut, garbled, broken_off, failed])
def test_a_listing_that_is_damaged_once_is_read_again(damaging: Damaging, spoil: Spoil) -> None:
    storage = damaging.bucket.storage
    storage.write("one", [CONTENT])
    damaging.next("GET", "list-type", spoil)
    assert storage.names() == ["one"]


@pytest.mark.parametrize("spoil", [without_checksums(cut), garbled])
def test_an_object_whose_answers_stay_damaged_is_named_without_credentials(damaging: Damaging, spoil: Spoil) -> None:
    storage = damaging.bucket.storage
    storage.write("one", [CONTENT])
    damaging.next("GET", "one", spoil, times=2 * (len(WAITS) + 1))
    with pytest.raises(
        CheckpointUnavailableError, match=rf"about {storage.path('one')} is damaged, each time"
    ) as raised:
        storage.read("one")
    assert "credentials" not in str(raised.value)


def test_a_cut_off_delta_does_not_stop_a_restore(damaging: Damaging, tmp_path: Path) -> None:
    disk = Disk(tmp_path, bucket=damaging.bucket)
    before = history(disk)
    lose(disk)
    damaging.next("GET", "delta-", without_checksums(cut))
    damaging.next("HEAD", "delta-", cut)
    assert disk.rows(9) == before


def test_without_the_right_to_delete_attempts_go_on_and_warn(
    damaging: Damaging, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    damaging.forbid("DELETE", "")
    damaging.forbid("POST", "delete")
    disk, shared = Disk(tmp_path, bucket=damaging.bucket), damaging.bucket.storage.below("run")
    with caplog.at_level(logging.WARNING, "holdfast"):
        before = history(disk)
        assert disk.durable.collect() == disk.durable.collect() == 0
        for attempt in (1, 2, 3):
            take_up(shared, attempt, (), {}, "fresh")
            query = QueryCopy(shared.below("query"), tmp_path / str(attempt), attempt)
            query.begin()
            query.done()
    lose(disk)
    assert disk.rows(9) == before
    warnings = [message for message in caplog.messages if disk.durable.storage.directory in message]
    assert len(warnings) == 1
    assert "may not delete" in warnings[0]
    assert "s3:DeleteObject" in warnings[0]


def test_what_would_count_if_it_stayed_is_not_left_there(damaging: Damaging) -> None:
    storage = damaging.bucket.storage
    storage.write("one", [CONTENT])
    damaging.forbid("DELETE", "")
    with pytest.raises(DeleteRefusedError, match=rf"may not delete {storage.path('one')}"):
        list(storage.delete(["one"]))


def test_a_broken_write_is_told_though_its_rest_stays(damaging: Damaging) -> None:
    def pieces() -> Iterator[Chunk]:
        yield CONTENT
        message = "the disk it is read from broke"
        raise UserActionError(message)

    damaging.forbid("DELETE", "")
    with pytest.raises(UserActionError, match="broke"):
        damaging.bucket.storage.write("torn", pieces())


ERRORS = {
    "AWS Error ACCESS_DENIED during GetObject operation: ": FailureKind.REFUSED,
    "When delete key 'a': AWS Error ACCESS_DENIED during DeleteObject operation: no": FailureKind.DELETE_REFUSED,
    "AWS Error SIGNATURE_DOES_NOT_MATCH during DeleteObject operation: ": FailureKind.REFUSED,
    "AWS Error NO_SUCH_BUCKET during PutObject operation: ": FailureKind.REFUSED,
    "AWS Error UNKNOWN (HTTP status 400) during GetObject operation: ExpiredToken": FailureKind.REFUSED,
    "AWS Error UNKNOWN (HTTP status 502) during GetObject operation: ": FailureKind.AWAY,
    "AWS Error NETWORK_CONNECTION during GetObject operation: curlCode: 18, partial": FailureKind.AWAY,
    "AWS Error SLOW_DOWN during PutObject operation: ": FailureKind.AWAY,
    "AWS Error UNKNOWN (HTTP status -1) during ListObjectsV2 operation: XML_ERROR": FailureKind.DAMAGED,
    "AWS Error VALIDATION during GetObject operation: Response checksums mismatch": FailureKind.DAMAGED,
    "No space left on device": FailureKind.OTHER,
}


@pytest.mark.parametrize("text", ERRORS)
def test_refusals_damage_and_silence_are_told_apart(text: str) -> None:
    assert kind_of(OSError(text)) is ERRORS[text]


def test_a_finding_has_code_status_and_operation() -> None:
    text = "reading 'b': AWS Error UNKNOWN (HTTP status 502) during HeadObject operation: no body"
    assert finding_in(text) == ClientFinding("UNKNOWN", 502, "HeadObject")


def test_damage_is_asked_about_again_and_a_refusal_never() -> None:
    waited, errors = list[float](), [OSError("AWS Error ACCESS_DENIED during GetObject operation: ")]

    def ask() -> None:
        raise errors[0]

    with pytest.raises(OSError, match="ACCESS_DENIED"):
        asked_again(ask, waited.append)
    assert waited == []
    errors[0] = ShortAnswerError("500 bytes came of the 1000 from byte 0 on")
    with pytest.raises(ShortAnswerError):
        asked_again(ask, waited.append)
    assert tuple(waited) == WAITS
