"""Imports the module whose cost is measured. Python imports this file at startup."""

import importlib
import os
import sys

folder, name = os.path.split(os.environ["SPEEDWELL_PRELOAD"])
sys.path.insert(0, folder)
importlib.import_module(name)
sys.path.remove(folder)
