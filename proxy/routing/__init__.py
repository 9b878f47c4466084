"""Where a call goes and whether it may: targets, upstreams, headers, keys, limits. No I/O."""
