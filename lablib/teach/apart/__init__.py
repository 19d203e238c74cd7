"""A student's notebook in a process of its own, which has neither references nor verdicts.

sandbox   the walls: limits, no network, nothing to write but an empty folder
cells     which statements of a notebook the exercises need
runner    runs them behind the walls, and answers calls of the student's functions
codec     values as JSON: what crosses is data, never code
remote    the judge's end: start, call with a time limit, kill
"""
