package sqlite

import (
	"errors"

	"github.com/ncruces/go-sqlite3"

	"klatch/store"
)

// reader is one connection for reading. One goroutine at a time uses it. Every read sees all commits that
// were answered before it began, also those of other processes.
type reader struct {
	conn *sqlite3.Conn

	get             *sqlite3.Stmt
	page            *sqlite3.Stmt
	window, expired *sqlite3.Stmt

	key []byte // scratch
}

const (
	sqlGet  = `SELECT cas, value FROM records WHERE key = ?1 AND ` + live
	sqlPage = `SELECT key, cas, value FROM records WHERE key >= ?1 AND key < ?3 AND ` + live + ` ORDER BY key`

	// The sweeper looks at one window of rows at a time.
	sqlWindow  = `SELECT rowid FROM records WHERE rowid > ?1 ORDER BY rowid LIMIT 1 OFFSET ?2`
	sqlExpired = `SELECT rowid FROM records WHERE rowid > ?1 AND rowid <= ?3 AND expires <= ?2 LIMIT ?4`
)

func newReader(d *dialer) (*reader, error) {
	conn, err := d.dialReader()
	if err != nil {
		return nil, err
	}
	r := &reader{conn: conn}
	err = statements(conn, map[**sqlite3.Stmt]string{
		&r.get: sqlGet, &r.page: sqlPage, &r.window: sqlWindow, &r.expired: sqlExpired,
	})
	if err != nil {
		return nil, errors.Join(err, hangUp(conn))
	}
	return r, nil
}

func (r *reader) record(now int64) (rec store.Record, found bool, err error) {
	if err := errors.Join(r.get.BindRawText(1, r.key), r.get.BindInt64(2, now)); err != nil {
		return rec, false, err
	}
	if found = r.get.Step(); found {
		rec = recordAt(r.get, 0)
	}
	err = r.get.Err()
	return rec, found, errors.Join(err, r.get.Reset())
}

// recordAt copies a record out of the columns cas and value.
func recordAt(row *sqlite3.Stmt, column int) store.Record {
	raw := row.ColumnRawBlob(column + 1)
	value := make([]byte, len(raw)) // not nil where the value is empty
	copy(value, raw)
	return store.Record{Value: value, CAS: store.CAS(row.ColumnInt64(column))}
}

// listed is one record of a page.
type listed struct {
	wire   string
	record store.Record
}

const (
	pageRecords = 256
	pageSize    = 1 << 20
)

// recordsFrom reads the next page of live records whose wire keys lie in [from, to).
func (r *reader) recordsFrom(from, to string, now int64) (page []listed, more bool, err error) {
	err = errors.Join(r.page.BindText(1, from), r.page.BindInt64(2, now), r.page.BindText(3, to))
	if err != nil {
		return nil, false, err
	}
	for size := 0; r.page.Step(); {
		page = append(page, listed{r.page.ColumnText(0), recordAt(r.page, 1)})
		size += len(page[len(page)-1].record.Value)
		if more = len(page) >= pageRecords || size >= pageSize; more {
			break
		}
	}
	err = r.page.Err()
	return page, more, errors.Join(err, r.page.Reset())
}

// expiredRows returns up to limit expired rows among the next windowRows after a row, and where the search
// goes on: at the end of that window if it was searched, or after the last row found. The end of the
// table is reported as done.
func (r *reader) expiredRows(after, windowRows, now int64, limit int) (rows []int64, next int64, done bool, err error) {
	const lastRow = 1<<63 - 1
	if err := errors.Join(r.window.BindInt64(1, after), r.window.BindInt64(2, windowRows-1)); err != nil {
		return nil, 0, false, err
	}
	next = lastRow
	if r.window.Step() {
		next = r.window.ColumnInt64(0)
	}
	if err := errors.Join(r.window.Err(), r.window.Reset()); err != nil {
		return nil, 0, false, err
	}

	err = errors.Join(r.expired.BindInt64(1, after), r.expired.BindInt64(2, now),
		r.expired.BindInt64(3, next), r.expired.BindInt64(4, int64(limit)))
	if err != nil {
		return nil, 0, false, err
	}
	for r.expired.Step() {
		rows = append(rows, r.expired.ColumnInt64(0))
	}
	if err := errors.Join(r.expired.Err(), r.expired.Reset()); err != nil {
		return nil, 0, false, err
	}
	if len(rows) == limit {
		return rows, rows[limit-1], false, nil
	}
	return rows, next, next == lastRow, nil
}
