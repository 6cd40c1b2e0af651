"""Why: when a run ends by itself. Pure: what has happened comes in. Must not end anything."""

from dataclasses import dataclass

from holdfast_runtime.progress import EndCause


@dataclass(frozen=True, slots=True)
class StopCondition:
    """What has to be reached; without any of it a run goes on until it is asked to stop."""

    idle: bool = False
    """Nothing is left to read."""
    batches: int | None = None
    seconds: float | None = None

    def reached(self, *, batches: int, seconds: float, idle: bool) -> EndCause | None:
        """Why a run ends that has done so many batches in so many seconds; None: it goes on."""
        if self.batches is not None and batches >= self.batches:
            return EndCause.ENOUGH
        if self.seconds is not None and seconds >= self.seconds:
            return EndCause.ENOUGH
        return EndCause.IDLE if self.idle and idle else None
