"""What other tools wrote, turned into readings: one file per tool's output, found by walking this folder.

A reader is a module with `KIND` (its name), `HINTS` (words of which its output holds one at least), `BEGINS` (a
multi-line pattern of the lines its output can begin with), `recognise(text)` (how sure it is that a text is its
own, 0..1) and `read(text)` (a `Parsed`). It may have `WITHIN` (a pattern found inside its first line), `RESTARTS`
(the line that begins the next output of its kind), `LEAD` (what right above that line is part of it) and
`end(text, at)` (where an output that closes itself ends).
A reader understands text and never judges it; what it cannot understand it lists, with line and reason.
"""
