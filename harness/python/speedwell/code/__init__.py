"""Measuring code given as text: `load form=text` and what follows (docs/reference/protocol.md, "Measuring code").

form.py reads a text and makes functions of it, batches.py holds the rules of measuring, loop.py is a
worker that measures, job.py one piece of code with its workers, run.py a run of several, gauges.py
what is shown meanwhile. Nothing of it is imported before code is loaded.
"""
