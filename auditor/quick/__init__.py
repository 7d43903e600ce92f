"""`auditor quick` and `auditor probe`: one server judged in a minute, over plain SSH or in place.

A target is reached (connect, settings, hostkeys, login), a small agent is started there (courier, agent), which starts
the probe file detached and reports in frames (link, frames); a session follows it through cuts and Ctrl-C, a run writes
the run folder, a screen shows it.
"""
