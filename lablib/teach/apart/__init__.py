"""A student's notebook in a process of its own, and what it answers compared in another one.

sandbox       the walls: limits, no network, no disk but what is named, nothing to write to
surroundings  what is named: files, and the environment
cells         which statements of a notebook the exercises need
runner        runs them behind the walls, and answers calls of the student's functions
codec         values as JSON: what crosses is data, never code, and bounded
remote        the referee's end: start, call with a time limit, kill
referee       a process that reads what was handed in, asks, and compares
usage         processor time and page tables of a process and its children; room for more
desk          the judge's end: orders out, verdicts in; ends referees that use too much
"""
