"""Every field of the model says what changing it costs, once."""

from collections.abc import Iterator

from pydantic import BaseModel

from holdfast.spec.app import StreamApp
from holdfast.spec.fields import ChangeCost, items_of_list, object_of


def test_every_field_carries_exactly_one_class() -> None:
    wrong = []
    for model in set(_models(StreamApp)):
        for name, field in model.model_fields.items():
            classes = [item for item in field.metadata if isinstance(item, ChangeCost)]
            if len(classes) != 1:
                wrong.append(f"{model.__name__}.{name}: {classes}")
    assert wrong == []


def test_every_class_has_words_for_people() -> None:
    assert [change.label for change in ChangeCost] == ["Live", "Restart", "NewRun", "Forbidden"]
    assert all(change.sentence for change in ChangeCost)


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for field in model.model_fields.values():
        inner = object_of(field) or items_of_list(field)
        if inner is not None:
            yield from _models(inner)
