"""The streams that have more partitions than the run knows. Must not decide what is done about them."""

from holdfast.spec.kept_streams import StreamNames
from holdfast.tasks.record import PlacementRecord
from holdfast_operator.decide.facts import Case


def growth_of(case: Case) -> str:
    """Return, in words, the streams with more partitions than in the run's record; empty: none."""
    record, plan, app = case.snapshot.record, case.judged.plan, case.judged.app
    if plan is None or app is None or not isinstance(record, PlacementRecord) or record.run_id != case.status.run_id:
        return ""
    before = record.called(StreamNames.of(app.spec)).counts()
    now = {stream.name: stream.count.actual for stream in plan.streams if stream.count is not None}
    grown = [name for name in sorted(before) if now.get(name, 0) > before[name]]
    return ", ".join(f"{name} from {before[name]} to {now[name]}" for name in grown)


def growth_to_read(case: Case) -> str:
    """Return, in words, the streams for whose new partitions the attempt is to be restarted; empty: none."""
    app = case.judged.app
    return growth_of(case) if app is not None and app.spec.on_partition_growth == "Restart" and case.begun else ""
