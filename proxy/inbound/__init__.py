"""The agent's side: HTTP/1.1 server protocol, request cycle, WebSockets."""
