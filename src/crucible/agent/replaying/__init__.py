"""Runs a recorded session again: the real loop in a fresh sandbox, with the recorded answers of model and people.

`record.py` has what was recorded and what of it is still to come, `playing.py` those who say again what was said,
`comparing.py` what is held against what, `driving.py` the whole from the first prompt to the last.
"""
