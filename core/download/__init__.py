"""Fetching models: any repository of the Hub, and the starter for somebody who has none.

`job` fetches a repository, `plan` tells what that means, `ledger` lists the downloads of all
processes, `starter` chooses a first model.
"""

from core.download.starter import fetch_starter

__all__ = ["fetch_starter"]
