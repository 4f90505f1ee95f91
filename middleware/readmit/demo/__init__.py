"""The main job on a real server: a lost response, a renewed login, no second effect; and the twin that has one."""

from __future__ import annotations

from readmit.demo._report import DemoReport
from readmit.demo._story import run_demo

__all__ = ["DemoReport", "run_demo"]
