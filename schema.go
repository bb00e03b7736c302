package outrider

import _ "embed"

// Schema is the SQL that makes an empty store. Its first line of pragmas gives
// the application_id and the user_version by which a file is recognised.
//
//go:embed schema.sql
var Schema string
