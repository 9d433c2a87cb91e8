package sqlite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"klatch/store"
)

// transaction is the writer's connection and what it knows inside the transaction that is open on it.
type transaction struct {
	conn *sqlite3.Conn

	begin, commit, rollback  *sqlite3.Stmt
	readLast, writeLast      *sqlite3.Stmt
	replace, upsert, insert  *sqlite3.Stmt // the three conditions of a put: exact, Any, Absent
	remove, removeAny, sweep *sqlite3.Stmt
	exists                   *sqlite3.Stmt

	now     time.Time
	last    int64 // the last CAS given out
	changed bool
}

// Parameters: ?1 key, ?2 now, ?3 the CAS demanded, ?4 new CAS, ?5 expires, ?6 value.
const (
	live = `(expires IS NULL OR expires > ?2)`

	sqlReplace = `UPDATE records SET cas = ?4, expires = ?5, value = ?6 WHERE key = ?1 AND cas = ?3 AND ` + live
	sqlInsert  = `INSERT INTO records (key, cas, expires, value) VALUES (?1, ?4, ?5, ?6)
		ON CONFLICT (key) DO UPDATE SET cas = excluded.cas, expires = excluded.expires, value = excluded.value`
	sqlInsertAbsent = sqlInsert + ` WHERE records.expires <= ?2`
	sqlRemove       = `DELETE FROM records WHERE key = ?1 AND cas = ?3 AND ` + live
	sqlRemoveAny    = `DELETE FROM records WHERE key = ?1 AND ` + live
	sqlExists       = `SELECT 1 FROM records WHERE key = ?1 AND ` + live
	sqlSweep        = `DELETE FROM records WHERE rowid = ?1 AND expires <= ?2`
	sqlReadLast     = `SELECT last FROM sequence`
	sqlWriteLast    = `UPDATE sequence SET last = ?1`
)

// newTransaction opens the writer's connection. ctx bounds only that.
func newTransaction(ctx context.Context, d *dialer) (*transaction, error) {
	conn, err := d.dialWriter()
	if err != nil {
		return nil, err
	}
	conn.SetInterrupt(ctx)
	defer conn.SetInterrupt(context.Background())
	if err := prepareFile(conn, d.firstCAS); err != nil {
		return nil, errors.Join(err, hangUp(conn))
	}
	tx := &transaction{conn: conn}
	err = statements(conn, map[**sqlite3.Stmt]string{
		&tx.begin: `BEGIN IMMEDIATE`, &tx.commit: `COMMIT`, &tx.rollback: `ROLLBACK`,
		&tx.readLast: sqlReadLast, &tx.writeLast: sqlWriteLast,
		&tx.replace: sqlReplace, &tx.upsert: sqlInsert, &tx.insert: sqlInsertAbsent,
		&tx.remove: sqlRemove, &tx.removeAny: sqlRemoveAny, &tx.sweep: sqlSweep,
		&tx.exists: sqlExists,
	})
	if err != nil {
		return nil, errors.Join(err, hangUp(conn))
	}
	return tx, nil
}

// start takes the file's write lock, waiting for other processes.
func (tx *transaction) start() error {
	if err := tx.begin.Exec(); err != nil {
		return fmt.Errorf("begin: %w", err)
	}
	tx.changed = false
	if tx.readLast.Step() {
		tx.last = tx.readLast.ColumnInt64(0)
	}
	if err := tx.readLast.Reset(); err != nil {
		return fmt.Errorf("read the sequence: %w", err)
	}
	return nil
}

// finish commits what has changed. The outcome of a commit that fails is for commitFailed to say.
func (tx *transaction) finish() (committing bool, err error) {
	if !tx.changed {
		return false, tx.rollback.Exec()
	}
	if err := errors.Join(tx.writeLast.BindInt64(1, tx.last), tx.writeLast.Exec()); err != nil {
		return false, fmt.Errorf("write the sequence: %w", err)
	}
	return true, tx.commit.Exec()
}

// abandon rolls back whatever SQLite has not rolled back itself.
func (tx *transaction) abandon() error {
	if tx.conn.GetAutocommit() {
		return nil
	}
	return tx.rollback.Exec()
}

// apply carries out one write. What it returns is the failure of the whole transaction; that the CAS of
// the write is not met is the write's own.
func (tx *transaction) apply(w *write) error {
	switch w.verb {
	case verbPut:
		return tx.put(w)
	case verbDelete:
		return tx.delete(w)
	default:
		return tx.sweepRows(w)
	}
}

func (tx *transaction) put(w *write) error {
	stmt := tx.replace
	switch w.cas {
	case store.Any:
		stmt = tx.upsert
	case store.Absent:
		stmt = tx.insert
	}
	err := errors.Join(
		stmt.BindRawText(1, w.key),
		stmt.BindInt64(4, tx.last+1),
		stmt.BindBlob(6, w.value))
	if stmt != tx.upsert {
		err = errors.Join(err, stmt.BindInt64(2, tx.now.UnixMilli()))
	}
	if stmt == tx.replace {
		err = errors.Join(err, stmt.BindInt64(3, int64(w.cas)))
	}
	if w.ttl == store.Forever {
		err = errors.Join(err, stmt.BindNull(5))
	} else {
		err = errors.Join(err, stmt.BindInt64(5, expiry(tx.now, w.ttl)))
	}
	changed, err := tx.run(stmt, err)
	if len(w.value) > keptBytes {
		err = errors.Join(err, stmt.ClearBindings()) // or SQLite keeps the value until the next put
	}
	switch {
	case err != nil:
		return err
	case changed:
		tx.last++
		w.newCAS = store.CAS(tx.last)
		return nil
	case w.cas == store.Absent:
		w.err = store.ErrConflict
		return nil
	}
	return tx.explain(w)
}

func (tx *transaction) delete(w *write) error {
	stmt, err := tx.removeAny, error(nil)
	if w.cas != store.Any {
		stmt = tx.remove
		err = stmt.BindInt64(3, int64(w.cas))
	}
	changed, err := tx.run(stmt, errors.Join(err, stmt.BindRawText(1, w.key), stmt.BindInt64(2, tx.now.UnixMilli())))
	if err != nil || changed {
		return err
	}
	return tx.explain(w)
}

func (tx *transaction) sweepRows(w *write) error {
	for _, row := range w.rows {
		changed, err := tx.run(tx.sweep, errors.Join(tx.sweep.BindInt64(1, row), tx.sweep.BindInt64(2, tx.now.UnixMilli())))
		if err != nil {
			return err
		}
		if changed {
			w.deleted++
		}
	}
	return nil
}

// explain finds out why a write changed nothing.
func (tx *transaction) explain(w *write) error {
	w.err = store.ErrNotFound
	err := errors.Join(tx.exists.BindRawText(1, w.key), tx.exists.BindInt64(2, tx.now.UnixMilli()))
	if err != nil {
		return err
	}
	if tx.exists.Step() {
		w.err = store.ErrConflict
	}
	return tx.exists.Reset()
}

// run executes a bound statement and says whether it changed a row.
func (tx *transaction) run(stmt *sqlite3.Stmt, bound error) (bool, error) {
	if bound != nil {
		return false, bound
	}
	if err := stmt.Exec(); err != nil {
		return false, err
	}
	changed := tx.conn.Changes() > 0
	tx.changed = tx.changed || changed
	return changed, nil
}

// expiry returns the first millisecond at which a record has lived for ttl.
func expiry(now time.Time, ttl time.Duration) int64 {
	return now.Add(ttl + time.Millisecond - 1).UnixMilli()
}
