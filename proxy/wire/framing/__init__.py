"""Split bodies into events: SSE, NDJSON, JSON arrays, AWS event streams, content codings."""
