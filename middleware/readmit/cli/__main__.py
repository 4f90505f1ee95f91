"""`python -m readmit.cli`: the same as `readmit`."""

from __future__ import annotations

import sys

from readmit.cli._main import main

sys.exit(main())
