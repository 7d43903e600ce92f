"""Who waits for whom while several workers run one probe: barriers, agreements, turns. Pure bookkeeping."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

Release = Tuple[str, Any]  # worker, answer


class Meeting:
    """The live workers of one command. A worker that ends or dies leaves, and nobody waits for it any more."""

    def __init__(self, workers: List[str]) -> None:
        self._order = list(workers)
        self._present = set(workers)
        self._waiting: Dict[str, Any] = {}
        self._wants_turn: List[str] = []
        self._turns_done = dict.fromkeys(workers, 0)
        self._holder: Optional[str] = None

    def arrive(self, worker: str, value: Any) -> List[Release]:
        """At a barrier (or an agreement, with its value): all go on when the last one is here."""
        self._waiting[worker] = value
        return self._settle()

    def want_turn(self, worker: str) -> List[Release]:
        """Ask to go alone."""
        self._wants_turn.append(worker)
        return self._settle()

    def end_turn(self, worker: str) -> List[Release]:
        """Give the turn back; answered at once."""
        self._turns_done[worker] += 1
        if self._holder == worker:
            self._holder = None
        return [(worker, None), *self._settle()]

    def leave(self, worker: str) -> List[Release]:
        """The worker has ended, well or not."""
        self._present.discard(worker)
        self._waiting.pop(worker, None)
        if worker in self._wants_turn:
            self._wants_turn.remove(worker)
        if self._holder == worker:
            self._holder = None
        return self._settle()

    def _settle(self) -> List[Release]:
        if self._waiting and set(self._waiting) == self._present:
            answer = any(bool(value) for value in self._waiting.values())
            released, self._waiting = list(self._waiting), {}
            return [(worker, answer) for worker in released]
        if self._holder is None:
            for worker in self._order:
                if worker in self._wants_turn and self._may_go(worker):
                    self._wants_turn.remove(worker)
                    self._holder = worker
                    return [(worker, None)]
        return []

    def _may_go(self, worker: str) -> bool:
        """Every live colleague before it has had this turn, or stands at a barrier and so passed it by."""
        turn = self._turns_done[worker]
        before = self._order[: self._order.index(worker)]
        return all(w not in self._present or w in self._waiting or self._turns_done[w] > turn for w in before)
