"""What a trace costs on an overlay, as batch functions.

A second implementation, apart from the planners' own costs, so that the two check each other: `routing`
(messages over a broker tree), `delivery` (messages in channels), `shape` (a mesh), and `definitions`, the
list of everything that is measured. Nothing is imported here: a task that routes needs no more.
"""
