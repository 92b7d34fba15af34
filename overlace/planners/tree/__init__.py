"""The facet `tree`: how brokers are wired (OCBR07)."""
