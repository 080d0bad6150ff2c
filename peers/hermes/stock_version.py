"""Version of the stock hermes-agent that is installed for these suites."""

from __future__ import annotations

from importlib.metadata import version

import pytest

VERSION = version("hermes-agent")
# The package registry stays at 0.19.0. Upstream's own releases are 0.20 and later.
IS_0_19 = VERSION.startswith("0.19.")

only_0_19 = pytest.mark.skipif(not IS_0_19, reason="only 0.19.0 does that")
only_0_20 = pytest.mark.skipif(IS_0_19, reason="only 0.20 and later do that")

# From 0.20 on, `hermes serve` runs no jobs: it passes the fire on to its gateway's API server. `test_cron_gateway.py`
# checks the same jobs there.
dashboard_runs_jobs = pytest.mark.skipif(not IS_0_19, reason="its dashboard hands fires on to its gateway")
