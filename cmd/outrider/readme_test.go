package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// block is the first block of README in that language behind a heading.
func block(t *testing.T, heading, language string) string {
	t.Helper()
	raw, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(raw), "\n## "+heading+"\n")
	_, text, there := strings.Cut(section, "```"+language+"\n")
	text, _, _ = strings.Cut(text, "```")
	if !ok || !there {
		t.Fatalf("README has no block in %s behind %q", language, heading)
	}
	return text
}

// journalOf is how a SQLite file keeps its journal.
func journalOf(t *testing.T, db *sql.DB) (mode string) {
	t.Helper()
	if err := db.QueryRow("PRAGMA journal_mode").Scan(&mode); err != nil {
		t.Fatal(err)
	}
	return mode
}

// TestTheFirstTransactionOfREADME runs it word for word, as somebody does who has
// nothing yet: after init, in the file that it made.
func TestTheFirstTransactionOfREADME(t *testing.T) {
	commands, text := typed(block(t, "A job from a transaction", "sh")), block(t, "A job from a transaction", "sql")
	t.Chdir(t.TempDir())
	first := commands[2]
	if o := try(t, nil, strings.Fields(first)[1:]...); o.code != exitOK {
		t.Fatalf("%s: %+v", first, o)
	}
	db, err := sql.Open("sqlite", "shop.db")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1) // BEGIN and COMMIT are two statements
	if _, err := db.Exec(text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	var rows int
	if err := db.QueryRow("SELECT count(*) FROM ojs_outbox WHERE status = 'pending'").Scan(&rows); err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
	if mode := journalOf(t, db); mode != "wal" {
		t.Errorf("the file that init made is in mode %q", mode)
	}
}

// TestInitLeavesTheJournal: how a file that is there keeps its journal is the
// affair of its app.
func TestInitLeavesTheJournal(t *testing.T) {
	file := filepath.Join(t.TempDir(), "shop.db")
	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("CREATE TABLE orders (id INTEGER PRIMARY KEY)"); err != nil {
		t.Fatal(err)
	}
	if o := try(t, nil, "outbox", "init", "sqlite:"+file); o.code != exitOK {
		t.Fatal(o)
	}
	if mode := journalOf(t, db); mode != "delete" {
		t.Errorf("a file of an app is in mode %q now", mode)
	}
}
