import pytest

from overlace.report.provenance import window_text

HOUR = 3_600_000_000


@pytest.mark.parametrize(
    ("window", "text"),
    [
        ((0, 0), "all of it (the log has no times)"),
        ((5, 5), "nothing"),
        ((0, HOUR), "1970-01-01 00:00 to 1970-01-01 01:00 UTC (1 hour)"),
        ((0, 36 * HOUR), "1970-01-01 00:00 to 1970-01-02 12:00 UTC (1.5 days)"),
        ((0, 90_000_000), "1970-01-01 00:00 to 1970-01-01 00:01:30 UTC (1.5 minutes)"),
        ((0, 2**62), "1970-01-01 00:00 to 4611686018427387904 µs UTC (53,375,996 days)"),
    ],
)
def test_a_window_is_told_as_people_read_it(window, text):
    assert window_text(window) == text
