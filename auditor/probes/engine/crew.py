"""All processes of the audit, and the one loop that hears them."""

from __future__ import annotations

import selectors
import time
from typing import Dict, List, Optional, Set, Tuple

from . import process_tree
from .channel import Message
from .colleague import Colleague

Heard = Tuple[Colleague, Optional[Message]]  # None: it has ended or closed its end


class Crew:
    """Starts, hears and ends colleagues."""

    def __init__(self, environment: Dict[str, str], directory: str) -> None:
        self._environment, self._directory = environment, directory
        self._members: Dict[str, Colleague] = {}
        self._gone: Set[str] = set()

    def hire(self, name: str, role: str, environment: Optional[Dict[str, str]] = None) -> Colleague:
        """Start one; its name must be new."""
        colleague = Colleague(name, role, {**self._environment, **(environment or {})}, self._directory)
        self._members[name] = colleague
        return colleague

    @property
    def pids(self) -> Set[int]:
        """The processes that are waited for by their handle."""
        return {colleague.pid for colleague in self._members.values()}

    def hear(self, timeout: float) -> List[Heard]:
        """What was said within `timeout` seconds; returns at the first word. A death is told once."""
        heard: List[Heard] = []
        with selectors.DefaultSelector() as selector:
            for colleague in self._members.values():
                if colleague.name not in self._gone:
                    selector.register(colleague.socket, colleague.events, (colleague, True))
                    if colleague.noisy:
                        selector.register(colleague.noise, selectors.EVENT_READ, (colleague, False))
            if not selector.get_map():
                time.sleep(timeout)
                return []
            spoke = set()
            for key, _ in selector.select(timeout):
                colleague, speaks = key.data
                spoke.add(colleague.name)
                if not speaks:
                    colleague.listen()
                    continue
                colleague.flush()
                messages = colleague.receive()
                if messages is None:
                    self._gone.add(colleague.name)
                    heard.append((colleague, None))
                else:
                    heard += [(colleague, message) for message in messages]
        for colleague in self._members.values():
            # A child it forked may hold its socket open.
            if colleague.name not in self._gone | spoke and colleague.died():
                self._gone.add(colleague.name)
                heard.append((colleague, None))
        return heard

    def dismiss(self, colleague: Colleague) -> List[process_tree.Entry]:
        """End one with everything it started; returns what would not end."""
        self._gone.add(colleague.name)
        self._members.pop(colleague.name, None)
        return colleague.end({other.pid: other.word for other in self._members.values()})

    def dismiss_all(self) -> None:
        """End all at once (a CUDA context takes its time to go), then whatever else became ours."""
        for colleague in self._members.values():
            colleague.kill()
        for colleague in list(self._members.values()):
            self.dismiss(colleague)
        process_tree.end_orphans()
