package sqldb

import "fmt"

// word scans a text column with few different values: rows with the same value share it.
type word struct {
	value *string
	words *words
}

// words are the values that were seen.
type words map[string]string

const maxWords = 1000 // then they start over

// ScanBytes implements pgx's BytesScanner: v is valid during the call only.
func (w *word) ScanBytes(v []byte) error {
	known, ok := (*w.words)[string(v)]
	if !ok {
		known = string(v)
		if *w.words == nil || len(*w.words) >= maxWords {
			*w.words = make(words)
		}
		(*w.words)[known] = known
	}
	*w.value = known
	return nil
}

// Scan implements [database/sql.Scanner].
func (w *word) Scan(src any) error {
	switch v := src.(type) {
	case string:
		*w.value = v
		return nil
	case []byte:
		return w.ScanBytes(v)
	}
	return fmt.Errorf("a text column holds %T", src)
}
