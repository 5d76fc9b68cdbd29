-- fragment: millis n
-- n milliseconds, to be added to a time.
{.n} * interval '1 millisecond'
