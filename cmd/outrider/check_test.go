package main

import (
	"fmt"
	"strings"
	"testing"

	"github.com/outrider-jobs/outrider/internal/appdb"
)

// faults are outboxes with something wrong in them: what is done to one that was
// right. The user of a fault with grants has these rights alone.
type fault struct {
	name   string
	sql    []string
	grants []string
	flags  []string
	param  string // of the DSN
}

var allGrants = []string{"GRANT SELECT, INSERT, UPDATE, DELETE ON ojs_outbox TO {user}",
	"GRANT SELECT, INSERT, UPDATE ON ojs_outbox_relays TO {user}", "GRANT SELECT ON ojs_outbox_identity TO {user}",
	"GRANT SELECT, INSERT, UPDATE, DELETE ON ojs_outbox_ticks TO {user}"}

var commonFaults = []fault{
	{name: "nothing"},
	{name: "no table", sql: []string{"DROP TABLE ojs_outbox"}},
	{name: "no relays, no identity", sql: []string{"DROP TABLE ojs_outbox_relays", "DROP TABLE ojs_outbox_identity"}},
	{name: "identity is empty", sql: []string{"DELETE FROM ojs_outbox_identity"}},
	{name: "column renamed", sql: []string{"ALTER TABLE ojs_outbox RENAME COLUMN job_args TO args"}},
	{name: "no ticks, as of an older init", sql: []string{"DROP TABLE ojs_outbox_ticks"}},
	{name: "no ticks, and they are wanted", sql: []string{"DROP TABLE ojs_outbox_ticks"}, flags: []string{"--ticks"}},
	{name: "statuses that are none", sql: []string{"INSERT INTO ojs_outbox (job_type, job_args, status) VALUES ('a.b', '[]', 'PENDING'), ('a.b', '[]', 'PENDING'), ('a.b', '[]', 'relayed')"}},
	{name: "a table of that name that is another", sql: []string{"DROP TABLE ojs_outbox_ticks", "CREATE TABLE ojs_outbox_ticks (name varchar(20) NOT NULL, at bigint NOT NULL, job_id varchar(64))"}, flags: []string{"--ticks"}},
	{name: "column of relays missing", sql: []string{"ALTER TABLE ojs_outbox_relays DROP COLUMN sent"}},
	{name: "as before answers and epochs were noted", sql: []string{"ALTER TABLE ojs_outbox DROP COLUMN answered_by",
		"ALTER TABLE ojs_outbox_relays DROP COLUMN epoch", "ALTER TABLE ojs_outbox_relays DROP COLUMN upto", "ALTER TABLE ojs_outbox_relays DROP COLUMN host"}},
}

var serverFaults = []fault{
	{name: "all rights that are needed", grants: allGrants},
	{name: "no right to delete or update", grants: append([]string{"GRANT SELECT, INSERT ON ojs_outbox TO {user}"}, allGrants[1:]...)},
	{name: "no right on relays", grants: []string{allGrants[0], allGrants[2], allGrants[3]}},
	{name: "no right to read the identity", grants: []string{allGrants[0], allGrants[1], allGrants[3]}},
	{name: "all rights of schedules", grants: allGrants, flags: []string{"--ticks"}},
	{name: "no right on ticks, nor to insert", grants: append([]string{"GRANT SELECT, UPDATE, DELETE ON ojs_outbox TO {user}"}, allGrants[1:3]...)},
	{name: "no right on ticks, nor to insert, and they are wanted", grants: append([]string{"GRANT SELECT, UPDATE, DELETE ON ojs_outbox TO {user}"}, allGrants[1:3]...), flags: []string{"--ticks"}},
	{name: "no right to delete ticks", grants: append([]string{"GRANT SELECT, INSERT, UPDATE ON ojs_outbox_ticks TO {user}"}, allGrants[:3]...), flags: []string{"--ticks"}},
	{name: "a role that only reads", grants: []string{"GRANT SELECT ON ojs_outbox TO {user}", "GRANT SELECT ON ojs_outbox_relays TO {user}", "GRANT SELECT ON ojs_outbox_identity TO {user}", "GRANT SELECT ON ojs_outbox_ticks TO {user}"}, flags: []string{"--ticks"}},
}

var faultsOf = map[string][]fault{
	appdb.Postgres: {
		{name: "args of another type", sql: []string{"ALTER TABLE ojs_outbox DROP COLUMN job_args", "ALTER TABLE ojs_outbox ADD job_args integer NOT NULL"}},
		{name: "several at once", sql: []string{"ALTER TABLE ojs_outbox ALTER created_at DROP DEFAULT", "ALTER TABLE ojs_outbox ALTER created_at DROP NOT NULL",
			"ALTER TABLE ojs_outbox ALTER status TYPE varchar(5)", "ALTER TABLE ojs_outbox DROP next_try_at", "ALTER TABLE ojs_outbox ADD next_try_at timestamptz NOT NULL DEFAULT now()"}},
		{name: "no index", sql: []string{"DROP INDEX ojs_outbox_pending", "DROP INDEX ojs_outbox_owned"}},
		{name: "no primary key", sql: []string{"ALTER TABLE ojs_outbox DROP CONSTRAINT ojs_outbox_pkey"}},
		{name: "jsonb will do", sql: []string{"ALTER TABLE ojs_outbox ALTER job_args TYPE jsonb"}},
		{name: "row level security", sql: []string{"ALTER TABLE ojs_outbox ENABLE ROW LEVEL SECURITY"}, grants: allGrants},
		{name: "transactions are read-only by default", grants: append([]string{"ALTER ROLE {user} SET default_transaction_read_only = on"}, allGrants...)},
		{name: "ids of a sequence without its right", sql: []string{"DROP TABLE ojs_outbox", "CREATE SEQUENCE own_ids",
			"CREATE TABLE ojs_outbox (id bigint PRIMARY KEY DEFAULT nextval('own_ids'), job_id text, job_type text NOT NULL, job_args json NOT NULL, job_options json, status text NOT NULL DEFAULT 'pending', owner text, attempts bigint NOT NULL DEFAULT 0, next_try_at bigint NOT NULL DEFAULT 0, created_at bigint NOT NULL DEFAULT 1, sent_at bigint, error text, answered_by text)",
			"ALTER SEQUENCE own_ids OWNED BY ojs_outbox.id", "CREATE INDEX ON ojs_outbox (id) WHERE status = 'pending'", "CREATE INDEX ON ojs_outbox (id) WHERE status = 'parked'", "CREATE INDEX ON ojs_outbox (owner, id) WHERE owner IS NOT NULL"},
			grants: allGrants, flags: []string{"--ticks"}},
		{name: "no right at all", grants: []string{"GRANT SELECT ON ojs_outbox_identity TO {user}"}},
	},
	appdb.MySQL: {
		{name: "transactions are read-only by default", grants: allGrants, param: "tx_read_only=1"},
		{name: "args of another type", sql: []string{"ALTER TABLE ojs_outbox MODIFY job_args INT NOT NULL"}},
		{name: "args too short, of another character set", sql: []string{"ALTER TABLE ojs_outbox MODIFY job_args TEXT NOT NULL", "ALTER TABLE ojs_outbox MODIFY job_type VARCHAR(255) CHARACTER SET latin1 NOT NULL"}},
		{name: "several at once", sql: []string{"ALTER TABLE ojs_outbox MODIFY created_at BIGINT NULL", "ALTER TABLE ojs_outbox MODIFY status VARCHAR(5) NOT NULL DEFAULT 'p'"}},
		{name: "no default", sql: []string{"ALTER TABLE ojs_outbox MODIFY created_at BIGINT NOT NULL", "ALTER TABLE ojs_outbox MODIFY id BIGINT NOT NULL"}},
		{name: "no transactions", sql: []string{"ALTER TABLE ojs_outbox ENGINE = MyISAM"}},
		{name: "no index", sql: []string{"ALTER TABLE ojs_outbox DROP KEY ojs_outbox_status", "ALTER TABLE ojs_outbox DROP KEY ojs_outbox_owner"}},
		{name: "no primary key", sql: []string{"ALTER TABLE ojs_outbox MODIFY id BIGINT NOT NULL, DROP PRIMARY KEY"}},
	},
	appdb.SQLite: {
		{name: "no index", sql: []string{"DROP INDEX ojs_outbox_pending"}},
		{name: "ids come again", sql: []string{"DROP TABLE ojs_outbox", "CREATE TABLE ojs_outbox (id INTEGER PRIMARY KEY, job_id, job_type, job_args, job_options, status, owner, attempts, next_try_at, created_at, sent_at, error)"}},
	},
}

// TestCheckSaysWhatIsWrong holds what check says of each fault, word for word.
func TestCheckSaysWhatIsWrong(t *testing.T) {
	for _, scheme := range []string{appdb.Postgres, appdb.MySQL, appdb.SQLite} {
		t.Run(scheme, func(t *testing.T) {
			var b strings.Builder
			faults := append(append([]fault{}, commonFaults...), faultsOf[scheme]...)
			if scheme != appdb.SQLite {
				faults = append(faults, serverFaults...)
			}
			for _, f := range faults {
				fmt.Fprintf(&b, "# %s\n%s\n", f.name, checked(t, scheme, f))
			}
			golden(t, "testdata/check_"+scheme+".golden", b.String())
		})
	}
}

// checked makes an outbox with a fault, and returns what check says of it.
func checked(t *testing.T, scheme string, f fault) (said string) {
	t.Helper()
	ran := t.Run(f.name, func(t *testing.T) {
		db := map[string]func(*testing.T) *appDB{appdb.Postgres: postgresDB, appdb.MySQL: mysqlDB, appdb.SQLite: sqliteDB}[scheme](t)
		db.init(t)
		db.exec(t, f.sql...)
		dsn := db.dsn
		if f.grants != nil {
			dsn = db.limited(t, f.grants...)
		}
		if f.param != "" {
			dsn += "?" + f.param
		}
		o := try(t, nil, append([]string{"outbox", "check", dsn}, f.flags...)...)
		said = fmt.Sprintf("%s%sexit %d\n", o.stdout, o.stderr, o.code)
		d, err := appdb.ParseDSN(dsn)
		if err != nil {
			t.Fatal(err)
		}
		said = strings.ReplaceAll(said, d.String(), scheme+":SHOP")
		if db.user != "" {
			said = strings.ReplaceAll(said, db.user, "USER")
		}
		for _, secret := range []string{canary, db.own} {
			if secret != "" && strings.Contains(said, secret) {
				t.Errorf("it holds %s: %s", secret, said)
			}
		}
	})
	if said == "" && ran {
		t.Skip("skipped: no " + scheme)
	}
	return said
}
