"""The client, written for asyncio; ``_sync`` is made of it by ``python -m tests.sync_client``."""
