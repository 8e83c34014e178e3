"""What ``conduit-actors demo`` runs: two example servers, recorded model turns, and the tour itself."""
