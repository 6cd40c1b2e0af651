"""The examiner of specs: asks worker processes what a spec says and whether its app may start; caches answers.

A look waits briefly for an answer. If that is not enough, the look ends, and another one follows when the answer is
there. A question that can't be answered is remembered and not tried again while the object is unchanged. Must not
parse specs itself.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.bounded_json import UNREAD
from holdfast.reasons import Reason
from holdfast.spec.app import StreamApp
from holdfast_operator.decide.facts import AppFinding, AppKey, Grounds, ParsedSpec, StartVerdict
from holdfast_operator.examine.lanes import ExaminerLanes, NotAnsweredError, TooExpensive
from holdfast_operator.examine.questions import AnswerFault
from holdfast_operator.manifests.pod_policy import PodPolicy
from holdfast_operator.observe.cache import RecentValues

_LOG = logging.getLogger("holdfast")
_MOMENT = 0.25
"""Seconds that a look waits for an answer."""
_MOST, _HEAVIEST, _MOST_REFUSED = 512, 16 << 20, 1 << 16
"""Limits: number of answers, their pickled bytes (five times as many in memory), number of refusals."""
QuestionKey = tuple[str, str]
"""Uid of an app, and the question about it."""


class ExaminationPendingError(Exception):
    """There is no answer yet; the app is looked at again when there is one."""


@dataclass(slots=True)
class Examiner:
    """Asks about specs and caches the answers."""

    lanes: ExaminerLanes
    changed: Callable[[AppKey], None]
    """Called when an answer arrives after its look has ended."""
    policy: PodPolicy
    refused: Callable[[Reason], None] = lambda _: None
    """Called with the reason when an app may not start."""
    _answers: RecentValues[QuestionKey, Any] = field(default_factory=lambda: RecentValues(_MOST, _HEAVIEST))
    _refused: RecentValues[QuestionKey, str] = field(default_factory=lambda: RecentValues(_MOST_REFUSED))
    """Why a question can't be answered."""
    _asked: dict[QuestionKey, "asyncio.Task[None]"] = field(default_factory=dict)

    async def spec(self, key: AppKey, tree: Mapping[str, Any]) -> ParsedSpec:
        """Return the parsed spec of this object."""
        metadata = tree["metadata"]
        unread = (tree.get(UNREAD) or {}).get("spec")
        if unread is not None:
            return ParsedSpec(None, None, f"spec: it can't be read: {unread}")
        since, named = metadata.get("generation"), {"metadata": {"name": metadata["name"]}}
        kept = {name: tree[name] for name in ("apiVersion", "kind", "spec") if name in tree} | named
        answer = await self._answer(key, (metadata["uid"], "spec"), since, kept)
        return answer if isinstance(answer, ParsedSpec) else ParsedSpec(None, None, answer)

    async def told(self, key: AppKey, uid: str, text: str) -> StreamApp | None:
        """Return the app in an attempt's ConfigMap; None if it can't be parsed."""
        answer = await self._answer(key, (uid, "told"), hashlib.sha256(text.encode()).digest(), text)
        return answer.app if isinstance(answer, ParsedSpec) else None

    async def verdict(self, key: AppKey, uid: str, generation: int, spec: ParsedSpec, grounds: Grounds) -> StartVerdict:
        """Return whether an attempt of the current app may start."""
        if spec.app is None:
            return StartVerdict(None, None, AppFinding(Reason.INVALID_SPEC, spec.wrong))
        answer = await self._answer(key, (uid, "verdict"), (generation, grounds), spec.app, grounds, self.policy)
        if isinstance(answer, StartVerdict):
            return replace(answer, app=spec.app, fingerprint=spec.fingerprint)
        return StartVerdict(None, None, AppFinding(Reason.INVALID_SPEC, answer))

    async def _answer(self, key: AppKey, which: QuestionKey, since: object, *arguments: Any) -> Any:
        """Return the answer, or a message why there can't be one."""
        while (known := self._refused.get(which, since) or self._answers.get(which, since)) is None:
            if which not in self._asked:
                self._asked[which] = asyncio.create_task(self._ask(key, which, since, *arguments))
            asked = self._asked[which]
            await asyncio.wait({asked}, timeout=_MOMENT)
            if not asked.done():
                raise ExaminationPendingError
        return known

    async def _ask(self, key: AppKey, which: QuestionKey, since: object, *arguments: Any) -> None:
        clock = asyncio.get_running_loop().time
        began = clock()
        try:
            answer, size = await self.lanes.ask(key.namespace, which[1], *arguments)
            self._learn(key, which, since, answer, size)
        except NotAnsweredError as error:
            _LOG.warning("%s/%s: %s", key.namespace, key.name, error)
        finally:
            del self._asked[which]
            if clock() - began >= _MOMENT:
                self.changed(key)

    def _learn(self, key: AppKey, which: QuestionKey, since: object, answer: Any, size: int) -> None:
        wrong = None
        if isinstance(answer, TooExpensive):
            wrong = f"spec: it can't be planned: {answer.why}; make it smaller"
        elif isinstance(answer, AnswerFault):
            wrong = f"spec: it can't be planned, by a fault of Holdfast ({answer.code}); the operator's log has it"
            _LOG.error("%s/%s: %s\n%s", key.namespace, key.name, wrong, answer.traceback)
        if wrong is not None:
            self._refused.put(which, since, wrong)
            self.refused(Reason.INVALID_SPEC)
            return
        self._answers.put(which, since, answer, size)
        if isinstance(answer, StartVerdict) and answer.against is not None:
            self.refused(answer.against.reason)
