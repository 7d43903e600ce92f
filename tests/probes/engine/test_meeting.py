"""Who waits for whom: nobody waits for the dead."""

from auditor.probes.engine.meeting import Meeting


def names(released):
    """The workers that may go on."""
    return {worker for worker, _ in released}


def test_a_barrier_opens_when_the_last_one_arrives():
    """Those who came first wait, then all go at once."""
    meeting = Meeting(["gpu0", "gpu1", "gpu2"])
    assert meeting.arrive("gpu0", None) == []
    assert meeting.arrive("gpu2", None) == []
    assert names(meeting.arrive("gpu1", None)) == {"gpu0", "gpu1", "gpu2"}


def test_a_dead_worker_opens_the_barrier_for_the_others():
    """Its leaving counts like an arrival."""
    meeting = Meeting(["gpu0", "gpu1", "gpu2"])
    meeting.arrive("gpu0", None)
    meeting.arrive("gpu1", None)
    assert names(meeting.leave("gpu2")) == {"gpu0", "gpu1"}


def test_the_last_one_left_meets_itself():
    """A lone worker never waits."""
    meeting = Meeting(["gpu0", "gpu1"])
    assert meeting.leave("gpu1") == []
    assert meeting.arrive("gpu0", None) == [("gpu0", False)]


def test_an_agreement_is_the_same_answer_for_all():
    """One yes is everybody's yes."""
    meeting = Meeting(["gpu0", "gpu1"])
    meeting.arrive("gpu0", False)
    assert sorted(meeting.arrive("gpu1", True)) == [("gpu0", True), ("gpu1", True)]
    meeting.arrive("gpu0", False)
    assert sorted(meeting.arrive("gpu1", False)) == [("gpu0", False), ("gpu1", False)]


def test_turns_go_by_index_whoever_asks_first():
    """The lower index goes first although the higher one asked first."""
    meeting = Meeting(["gpu0", "gpu1"])
    assert meeting.want_turn("gpu1") == []
    assert names(meeting.want_turn("gpu0")) == {"gpu0"}
    assert names(meeting.end_turn("gpu0")) == {"gpu0", "gpu1"}
    assert names(meeting.end_turn("gpu1")) == {"gpu1"}


def test_a_worker_that_dies_in_its_turn_gives_it_up():
    """The next one goes."""
    meeting = Meeting(["gpu0", "gpu1"])
    meeting.want_turn("gpu0")
    assert meeting.want_turn("gpu1") == []
    assert names(meeting.leave("gpu0")) == {"gpu1"}


def test_a_worker_that_dies_before_its_turn_is_passed_by():
    """Nobody waits for a turn that will never come."""
    meeting = Meeting(["gpu0", "gpu1"])
    assert meeting.want_turn("gpu1") == []
    assert names(meeting.leave("gpu0")) == {"gpu1"}


def test_who_stands_at_a_barrier_has_passed_its_turn_by():
    """Else the two would wait for each other for ever."""
    meeting = Meeting(["gpu0", "gpu1"])
    meeting.arrive("gpu0", None)
    assert names(meeting.want_turn("gpu1")) == {"gpu1"}
    meeting.end_turn("gpu1")
    assert names(meeting.arrive("gpu1", None)) == {"gpu0", "gpu1"}


def test_a_second_round_of_turns_starts_with_the_lowest_again():
    """Whoever had a turn may have its next one before a higher index, never before a lower one's."""
    meeting = Meeting(["gpu0", "gpu1"])
    for worker in ("gpu0", "gpu1"):
        meeting.want_turn(worker)
        meeting.end_turn(worker)
    assert meeting.want_turn("gpu1") == []
    assert names(meeting.want_turn("gpu0")) == {"gpu0"}
