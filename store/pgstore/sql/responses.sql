-- fragment: millis n
-- So many milliseconds, to be added to a time.
{.n} * interval '1 millisecond'
