"""One proxied call, from admission to its recorded ending."""
