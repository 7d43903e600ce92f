"""The fixed words of the project as a reader sees them: verdicts, severities, categories, reasons."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from auditor.judge.texts import N_
from auditor.report.wording import worded

if TYPE_CHECKING:
    from auditor.report.texts import Texts

MARKS = {"reject": "✖", "incomplete": "?", "review": "!", "accept": "✔", "advice": "→", "info": "·"}

WORDS: dict[str, str] = {
    # verdicts
    "reject": N_("reject"),
    "incomplete": N_("incomplete"),
    "review": N_("review"),
    "accept": N_("accept"),
    # severities
    "advice": N_("advice"),
    "info": N_("info"),
    # categories
    "misallocated": N_("not what was ordered"),
    "virtualized": N_("virtualized"),
    "degraded": N_("degraded"),
    "underperforming": N_("slower than it should be"),
    "unproven": N_("sources contradict each other"),
    # bases
    "order": N_("the order"),
    "spec": N_("data sheet"),
    "achievable": N_("measured on healthy machines"),
    "floor": N_("your documents' limit"),
    "siblings": N_("the other GPUs of the server"),
    "fleet": N_("the other servers of the run"),
    "baseline": N_("earlier audits"),
    "contradiction": N_("two sources that contradict each other"),
    "evidence": N_("direct evidence"),
    # uses
    "training_multi_gpu": N_("training on all GPUs"),
    "training_single_gpu": N_("training on one GPU"),
    "inference": N_("inference"),
    # statuses of a probe
    "measured": N_("measured"),
    "not_applicable": N_("does not apply"),
    "failed": N_("failed"),
    "timed_out": N_("timed out"),
    "skipped": N_("skipped"),
    # phases of an audit
    "reach": N_("connecting"),
    "start": N_("starting the probe"),
    "measure": N_("measuring"),
    "collect": N_("fetching the record"),
    "done": N_("done"),
    # why an audit of a server ended early
    "unreachable": N_("the server did not answer"),
    "host_key_unknown": N_("its host key is unknown and was not accepted"),
    "host_key_changed": N_("its host key has changed"),
    "disk_full": N_("its disk is full"),
    "no_python": N_("it has no usable Python"),
    "record_refused": N_("its record was refused"),
    "could_not_be_judged": N_("its record could not be judged"),
    "never_started": N_("its audit was never started"),
    "bad_order": N_("its order is not understood, so it was not measured"),
    "no_record_given": N_("it was ordered, and no record of it was given"),
    "ssh_config": N_("the SSH configuration does not work"),
    "connection_lost": N_("the connection was lost"),
    "login_refused": N_("the server refused the login"),
    "old_python": N_("its newest Python is too old"),
    "no_shell": N_("no command could be run there"),
    "no_torch": N_("no interpreter with torch was found"),
    "no_driver": N_("it has no driver that answers"),
    "no_record": N_("the probe ended without a record"),
    "not_started": N_("the probe did not start"),
    "not_writable": N_("no folder there can be written to"),
    "read_only": N_("its file system is read-only"),
    "module_failed": N_("the measuring module failed"),
    "spoiled_answer": N_("its answer could not be read"),
    "sudo_refused": N_("sudo was refused"),
    "busy": N_("another audit was running there"),
    "vanished": N_("something removed the audit's folder"),
    "damaged": N_("the probe file was altered there"),
    "no_interpreter": N_("the Python that was named is not there"),
    "rebooted": N_("it was restarted in the middle of the audit"),
    "probe_died": N_("the probe was killed there"),
    "flooded": N_("it sent more than may be read"),
    "stopped": N_("the audit was stopped"),
    "too_large": N_("its record is too large"),
    # why a record was refused
    "unreadable": N_("it cannot be read"),
    "malformed": N_("it is not built like a record"),
    "too_deep": N_("it is nested too deep"),
    "duplicate_key": N_("it says one thing twice"),
    "not_finite": N_("it holds what is no figure"),
    "out_of_range": N_("it holds a figure out of range"),
    "unsupported_version": N_("it is of another schema"),
    # interconnects
    "nvswitch": N_("NVSwitch"),
    "nvlink": N_("NVLink"),
    "nvlink_bridge": N_("NVLink bridge"),
    "pcie": N_("PCIe"),
    "none": N_("none"),
}

# What a verdict may need, by the names of policy.yaml.
NEEDS: dict[str, str] = {
    "record": N_("the whole record"),
    "judgement": N_("a judgement of the record"),
    "model": N_("GPU model from two sources"),
    "count": N_("count of GPUs from two sources"),
    "matmul": N_("matrix multiplication"),
    "host_copy": N_("copies between host and GPU"),
    "thermal": N_("temperature under load"),
    "memory_bandwidth": N_("memory bandwidth"),
    "topology": N_("topology"),
    "all_reduce": N_("all-reduce"),
    "server_facts": N_("facts of the server"),
    "matmul_cpu": N_("matrix multiplication on the CPU"),
    "all_reduce_cpu": N_("all-reduce on the CPU"),
}


def word(texts: Texts, key: str | None) -> str:
    """A fixed word in the reader's language; a word nobody listed is shown as it is."""
    return texts._(WORDS.get(key, key)) if key else ""


def reason_text(texts: Texts, reason: str | None) -> str:
    """Why an audit ended early: the fixed word in the reader's language, its detail as it came."""
    if not reason:
        return ""
    key, _, detail = reason.partition(": ")
    word_key = key.replace(" ", "_")
    if word_key not in WORDS:
        return worded(texts, reason)
    known = texts._(WORDS[word_key])
    return texts._(N_("{word}: {detail}"), word=known, detail=reason_text(texts, detail)) if detail else known


def missing_text(texts: Texts, missing: Sequence[str]) -> str:
    """What the verdict misses, each need once with the GPUs it is missing on."""
    where: dict[str, list[str]] = {}
    for one in missing:
        need, _, subject = one.partition(" of ")
        where.setdefault(need, []).extend([subject] if subject else [])
    parts = []
    for need, subjects in where.items():
        name = texts._(NEEDS.get(need, need))
        parts.append(f"{name} ({span(subjects)})" if subjects else name)
    return texts.listed(parts)


def needs_text(texts: Texts, what: str) -> str:
    """The needs of a finding, as the report calls them; what is no need is shown as it is."""
    return texts.listed(texts._(NEEDS.get(one, one)) for one in what.split(", "))


def why_missing(texts: Texts, reasons: str) -> str:
    """Why needed readings are missing: our sentences in the reader's language, a server's words as they came."""
    return texts.strung(reason_text(texts, one) for one in reasons.split("; "))


def span(subjects: Sequence[str]) -> str:
    """Subjects in short: gpu0, gpu1, gpu2, gpu5 → gpu0–gpu2, gpu5."""
    out: list[list[str]] = []
    for subject in subjects:
        if out and _number(subject) is not None and _number(out[-1][-1]) == (_number(subject) or 0) - 1:
            out[-1].append(subject)
        else:
            out.append([subject])
    return ", ".join(f"{run[0]}–{run[-1]}" if len(run) > 2 else ", ".join(run) for run in out)


def _number(subject: str) -> int | None:
    return int(subject[3:]) if subject.startswith("gpu") and subject[3:].isdigit() else None
