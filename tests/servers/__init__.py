"""MCP servers for tests, real programs each, and the helpers that start them."""

from servers.start import HttpServer, http_server, stdio_server

__all__ = ["HttpServer", "http_server", "stdio_server"]
