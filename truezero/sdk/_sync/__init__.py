# Made of truezero/sdk/_async by `python -m tests.sync_client`: change it there.
"""The client that blocks, made of ``_async`` by ``python -m tests.sync_client``."""
