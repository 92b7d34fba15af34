"""One dissemination tree per channel: as many latency bounds as possible, no degree limit broken (PART10 §3.2)."""
