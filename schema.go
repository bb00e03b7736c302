package outrider

import _ "embed"

// Schema is the SQL that makes the tables of an empty store. Whoever runs it
// sets the application_id and the user_version by which a file is recognised.
//
//go:embed schema.sql
var Schema string
