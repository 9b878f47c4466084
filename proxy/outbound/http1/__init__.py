"""An HTTP/1.1 client on asyncio and httptools: bytes in, the same bytes out.

It adds no header, keeps no cookie, follows no redirect, decodes nothing and logs nothing.
"""
