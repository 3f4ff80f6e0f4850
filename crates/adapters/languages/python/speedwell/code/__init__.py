"""Measures code given as text: `load form=text` and what follows (docs/reference/protocol.md, "Measuring code").

form.py parses a text and compiles functions from it, batches.py has the rules of measurement, loop.py is a
measuring worker, job.py one piece of code with its workers, run.py a run of several jobs, gauges.py live figures.
None of it is imported before code is loaded.
"""
