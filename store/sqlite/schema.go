package sqlite

import (
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"

	"klatch/store"
)

const (
	// applicationID marks the file as klatch's in its header ("klat").
	applicationID = 0x6b6c6174

	// schemaVersion is raised by a change that older releases could not live with.
	schemaVersion = 1
)

// schema creates the tables.
//
// The key is a unique index beside a rowid table, not the primary key of one without: an update by key
// then leaves the index alone. The value comes last, so that looking at the other columns never reads the
// pages that a large one overflows to. There is no index on expires, because every save of a session
// would move its entry; the sweeper scans instead.
const schema = `
CREATE TABLE records (
	key     TEXT    NOT NULL UNIQUE,
	cas     INTEGER NOT NULL,
	expires INTEGER,
	value   BLOB    NOT NULL
);
CREATE TABLE sequence (last INTEGER NOT NULL);
`

// prepareFile makes sure that the file is a klatch store of a schema that this release knows, creating the
// tables in an empty one. Several processes may do so at once; firstCAS is where the winner begins to count.
func prepareFile(c *sqlite3.Conn, firstCAS int64) error {
	fresh, err := inspect(c)
	if err != nil {
		return err
	}
	mode, err := queryText(c, "PRAGMA journal_mode = WAL")
	if err != nil {
		return err
	}
	if mode != "wal" {
		return fmt.Errorf("%w: the file system cannot share memory, which write-ahead logging needs (journal mode is %q): put the file on a local disk", ErrNoAccess, mode)
	}
	if fresh {
		return create(c, firstCAS)
	}
	return nil
}

// create makes the tables unless another process has just done so.
func create(c *sqlite3.Conn, firstCAS int64) (err error) {
	tx, err := c.BeginImmediate()
	if err != nil {
		return err
	}
	defer tx.End(&err)
	if fresh, err := inspect(c); err != nil || !fresh {
		return err
	}
	return c.Exec(fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d; %s INSERT INTO sequence VALUES (%d);",
		applicationID, schemaVersion, schema, firstCAS))
}

// inspect tells an empty file from one of ours, and refuses every other. It is one statement, so that it
// never sees half of what another process creates.
func inspect(c *sqlite3.Conn) (fresh bool, err error) {
	var application, version, objects int64
	err = queryRow(c, `SELECT application_id, user_version, (SELECT count(*) FROM sqlite_schema)
		FROM pragma_application_id, pragma_user_version`, func(row *sqlite3.Stmt) {
		application, version, objects = row.ColumnInt64(0), row.ColumnInt64(1), row.ColumnInt64(2)
	})
	switch {
	case err != nil:
		return false, err
	case application == 0 && version == 0 && objects == 0:
		return true, nil
	case application != applicationID:
		return false, fmt.Errorf("%w: the file is a database of another program: choose another path", ErrForeignFile)
	case version > schemaVersion:
		return false, fmt.Errorf("%w: its schema is %d, this release knows up to %d: upgrade this node", store.ErrSchema, version, schemaVersion)
	}
	return false, nil
}

func queryText(c *sqlite3.Conn, sql string) (text string, err error) {
	err = queryRow(c, sql, func(row *sqlite3.Stmt) { text = row.ColumnText(0) })
	return text, err
}

func queryRow(c *sqlite3.Conn, sql string, read func(*sqlite3.Stmt)) error {
	stmt, _, err := c.Prepare(sql)
	if err != nil {
		return err
	}
	if stmt.Step() {
		read(stmt)
	}
	return errors.Join(stmt.Err(), stmt.Close())
}

// firstCAS is where a new file begins to count: far above every token of a file that it may have replaced,
// because other processes may still keep copies of that one's records.
func firstCAS(now time.Time) int64 {
	const perMillisecond, latest = 1 << 21, 1 << 41
	return min(max(now.UnixMilli(), 1), latest) * perMillisecond
}
